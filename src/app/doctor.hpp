// `trail doctor`: the cause behind an error in a log, what is wrong with this host, and what a project would meet here.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/installation.hpp"
#include "base/json.hpp"
#include "base/reporter.hpp"
#include "diagnose/diagnose.hpp"
#include "machine/machine.hpp"

namespace startrail::app {

// "-" is standard input. Errors: not_found, permission, naming the file.
[[nodiscard]] Result<std::vector<diagnose::Finding>> diagnose_log(const std::string& file);
// What a run printed, both streams. `name` as for `trail logs`. Errors: those of finding the run.
[[nodiscard]] Result<std::vector<diagnose::Finding>> diagnose_run(const Installation& installation,
                                                                  const std::string& name, Reporter& reporter);

// What was looked at, in words, and what is wrong with it.
struct Examination {
  std::string story;  // "Debian GNU/Linux 12 (bookworm), 2 CPUs, 24 GiB, no NVIDIA GPU; runc 1.1.5"
  std::vector<diagnose::Finding> findings;
  Json facts;  // machine::to_json, or {"folder", "framework", "cuda", "python", "suite", "locked", "notes"}
};
struct CheckUp {
  Examination host;
  std::optional<Examination> project;  // nullopt: the folder holds no training code
};
// This host, and what `trail run` would choose in `folder`; offline, under a second, and nothing is written.
[[nodiscard]] Result<CheckUp> check_up(const Installation& installation, const std::filesystem::path& folder);

// The commands that the certain findings about the host come with, each once: nothing is mended on a guess.
[[nodiscard]] std::vector<std::string> commands_of(const CheckUp& found);
// Runs one by the shell, as root (by sudo for others), its output to stderr. Errors: internal, naming the
// command.
[[nodiscard]] Result<void> run_as_root(const std::string& command);

// {"findings": […]}, the best first.
[[nodiscard]] Json to_json(const std::vector<diagnose::Finding>& findings);
// {"findings": […], "host": facts, "project": facts or null}.
[[nodiscard]] Json to_json(const CheckUp& found);

}  // namespace startrail::app
