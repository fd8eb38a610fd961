// Does an image do what it promises? Checked in levels, from its files to a training, and written down as an in-toto
// attestation beside it.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/reporter.hpp"
#include "machine/machine.hpp"

namespace startrail::image {

enum class Level {
  files,        // every file has the content that it was made with
  linkage,      // every library that is needed is in the image, or the driver's
  imports,      // every package can be imported
  selftest,     // the framework's own checks
  training,     // digits by a CNN, text by a small transformer, each to a threshold
  collectives,  // sums over 2 and 4 processes
  speed,        // a figure to compare with later
};
[[nodiscard]] std::string_view name(Level level);
[[nodiscard]] const std::vector<Level>& all_levels();
[[nodiscard]] std::optional<Level> level_from_name(std::string_view name);

enum class Outcome { passed, warned, failed, not_tried };
[[nodiscard]] std::string_view name(Outcome outcome);

struct LevelResult {
  Level level = Level::files;
  Outcome outcome = Outcome::not_tried;
  std::chrono::milliseconds took{0};
  std::string summary;                // one sentence: what was looked at, or why it failed
  std::vector<std::string> findings;  // of a failed or warned level, each naming its file or module
  Json figures;                       // what was measured; null when nothing was
};

struct Verification {
  std::string image;  // id
  std::vector<LevelResult> levels;
  [[nodiscard]] bool passed() const;  // no level failed, and at least one was tried
};

struct VerifyOptions {
  std::vector<Level> levels;  // in order; empty: all
  machine::HostPaths host;    // GPUs are given to the image as a run would get them
  std::filesystem::path state_root;
};

// Errors: those of `open` and of starting a container. A level that fails is a result, not an error.
[[nodiscard]] Result<Verification> verify_image(const std::filesystem::path& store, const std::string& image,
                                                const VerifyOptions& options, const machine::Machine& machine,
                                                Reporter& reporter);

// As an in-toto statement (in-toto Attestation Framework, Statement v1) with the predicate "test-result" v0.1.
[[nodiscard]] Json statement_of(const Verification& verification, const machine::Machine& machine,
                                const Json& image_details);
// Kept with the image, in place of an earlier one. `stored_verification` gives it back, null when there is none.
[[nodiscard]] Result<void> store_verification(const std::filesystem::path& store, const std::string& image,
                                              const Json& statement);
[[nodiscard]] Json stored_verification(const std::filesystem::path& store, const std::string& image);

}  // namespace startrail::image
