// Real containers for tests: a base made once, a scratch folder and a workspace per test, and the four ways to run.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/process.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox::testing {

// STARTRAIL_TEST_HOME, else test-home in the build folder: what suites share between runs.
[[nodiscard]] std::filesystem::path test_home();
// The root of a Debian bookworm base, made on first use. Errors as image::ensure_base.
[[nodiscard]] Result<std::filesystem::path> test_base();
[[nodiscard]] std::filesystem::path program(const char* name);  // of this build

// An account number that no host has, to be the ordinary user of tests that root runs.
inline constexpr unsigned k_ordinary_uid = 23456;

struct Outcome {
  int exit_code = 0, signal = 0;
  bool out_of_memory = false;
  std::string output, errors;
};

// Root and rootless, each with crun and runc.
struct Way {
  Mode mode = Mode::root;
  std::string runtime;
  [[nodiscard]] std::string name() const;
};
inline void PrintTo(const Way& way, std::ostream* out) {
  *out << way.name();
}
[[nodiscard]] std::vector<Way> all_ways();

// Why this host can't go this way; nullopt when it can.
[[nodiscard]] std::optional<std::string> obstacle(const Way& way);
[[nodiscard]] Support support_for(const Way& way);

class ContainerTest : public ::testing::TestWithParam<Way> {
 protected:
  void SetUp() override;
  void TearDown() override;

  [[nodiscard]] bool rootless() const { return GetParam().mode == Mode::rootless; }
  // The uid that runs inside (in the container of the latest `spec`), and the one that owns the workspace outside.
  [[nodiscard]] unsigned inner_uid() const;
  [[nodiscard]] unsigned owner() const;
  // Default: the test base, the workspace, a plain environment.
  [[nodiscard]] ContainerSpec spec(std::vector<std::string> argv) const;
  [[nodiscard]] ContainerSpec shell(const std::string& script) const { return spec({"bash", "-c", script}); }
  // As the way's user, in a process of its own, to the end.
  Outcome run(const ContainerSpec& spec, std::optional<std::chrono::milliseconds> timeout = {});
  // The command line that does it.
  std::vector<std::string> command_for(const ContainerSpec& spec);

  std::filesystem::path m_folder, m_workspace;
  Support m_support;
  mutable std::string m_latest_id;
};

// A gtest skip that also reaches terminals which show no skipped tests.
void announce_skip(const std::string& reason);

}  // namespace startrail::sandbox::testing
