// Verifications of combinations, as files hold them: what turns a row's status from "declared" to "verified".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.hpp"

namespace startrail::catalog {

// One [[verified]] table. docs/reference/catalog.md says who writes it, and where.
struct Verified {
  std::string framework, series, tag;  // the row's: "torch", "2.6", ""
  std::string release, python;         // what was verified: "2.6.0", "3.11"
  std::string level;                   // the highest level that passed: "imports", "training"
  std::string hardware;                // "cpu", or the GPU's name
  std::string date;                    // "2026-11-30"
  std::string image;                   // "sha256:…", whose attestation holds the details
  // "" where an older version wrote it.
  std::string build;   // "gpu", or "cpu": without the GPU libraries that the row names
  std::string result;  // "passed", or "warned": with findings that the attestation names
  std::string lock;    // SHA-256 of what the image was made of
};

// Errors: corrupt, naming the line.
[[nodiscard]] Result<std::vector<Verified>> parse_verified(std::string_view toml, std::string_view name);

// Those that came with the program: catalog/verified.toml. They are about its own rows, not about those of the user.
[[nodiscard]] const std::vector<Verified>& compiled_in_verifications();

[[nodiscard]] bool is_about(const Verified& verified, const Combination& row);
// "2.6.0 on Python 3.11 up to collectives, on a CPU only, 2026-11-30, lock 0123456789ab"
[[nodiscard]] std::string in_words(const Verified& verified);

// Rows that a verification is about get the status "verified", and where; rows of the user's own too.
void mark_verified(std::vector<Combination>& rows, const std::vector<Verified>& verified);

}  // namespace startrail::catalog
