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
};

// Errors: corrupt, naming the line.
[[nodiscard]] Result<std::vector<Verified>> parse_verified(std::string_view toml, std::string_view name);

// Rows that a verification is about get the status "verified"; rows of the user's own too.
void mark_verified(std::vector<Combination>& rows, const std::vector<Verified>& verified);

}  // namespace startrail::catalog
