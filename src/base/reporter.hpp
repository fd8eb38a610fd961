// Where long work says what it is doing. The terminal, plain logs and tests each implement it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace startrail::base {

enum class Unit { bytes, items };

// A snapshot of one activity. Rate and time left are the implementation's to work out.
struct Progress {
  std::string what;  // "downloading", "installing", "building base bookworm"
  std::uint64_t done = 0;
  std::optional<std::uint64_t> total;  // unknown while nullopt
  Unit unit = Unit::bytes;
  std::string detail;  // "torch, nvidia-cudnn-cu13 and 3 more"
};

// All members may be called from any thread.
class Reporter {
 public:
  virtual ~Reporter() = default;
  // A new phase begins ("resolving 12 requirements"); ends the bar of the phase before.
  virtual void step(std::string_view what) = 0;
  virtual void progress(const Progress& progress) = 0;
  // A fact the user should see once ("Python 3.8 is not in Debian: taking 3.9").
  virtual void note(std::string_view text) = 0;
  virtual void warn(std::string_view text) = 0;
};

// Drops everything; for --quiet, and tests that look at results only.
class SilentReporter final : public Reporter {
 public:
  void step(std::string_view) override {}
  void progress(const Progress&) override {}
  void note(std::string_view) override {}
  void warn(std::string_view) override {}
};

}  // namespace startrail::base

namespace startrail {
using base::Reporter;
}
