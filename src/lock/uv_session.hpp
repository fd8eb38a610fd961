// Questions to uv: files written, the program run (on this host without builds, or inside the sandbox with them),
// its answer read.
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/process.hpp"
#include "base/reporter.hpp"
#include "catalog/catalog.hpp"
#include "lock/build_help.hpp"
#include "lock/lock.hpp"
#include "lock/request_lines.hpp"
#include "lock/uv_environment.hpp"
#include "lock/uv_failure.hpp"

namespace startrail::lock {

enum class Builds {
  forbidden,  // on this host: no code of any package runs
  allowed,    // inside the sandbox, on the base of the Python's suite
};

struct Question {
  catalog::PythonChoice python;
  Builds builds = Builds::forbidden;
  std::vector<std::string> without;  // packages left out of the resolution
  NamelessFolders nameless = NamelessFolders::included;
  Loosened loosened;
  std::vector<std::pair<std::string, std::string>> stubs;  // names and versions for which metadata-only wheels stand in
  std::vector<std::string> bounds;                         // further constraints
  std::chrono::seconds patience{900};                      // without builds; then uv is stopped
  BuildHelp help;
};

struct Answer {
  std::optional<std::string> lock_text;  // PEP 751, as uv wrote it; paths are relative to `written_in`
  std::filesystem::path written_in;      // the folder as uv saw it
  std::filesystem::path project;         // the project folder as uv saw it
  UvFailure failure;                     // when there is no text
  std::string errors;                    // uv's own words, for the log
};

class UvSession {
 public:
  // Fetches uv when it isn't there yet. Errors: network, not_found, permission.
  [[nodiscard]] static Result<UvSession> open(const project::Requirements& needs, const catalog::Choice& choice,
                                              const machine::Machine& machine, const ResolveOptions& options,
                                              Reporter& reporter);
  UvSession(UvSession&&) noexcept;
  ~UvSession();

  // A resolution that fails is an answer. Errors: permission, no_space, unsupported (no sandbox), internal.
  [[nodiscard]] Result<Answer> ask(const Question& question);
  // `uv export` of the project's uv.lock as PEP 751, for every Python and platform that it covers.
  [[nodiscard]] Result<Answer> convert_uv_lock(const std::filesystem::path& uv_lock);

  [[nodiscard]] const Request& request() const;
  // The default index's files of a project, asked for once in a session; nullptr where the index doesn't answer.
  [[nodiscard]] const std::vector<IndexFile>* files_of(const std::string& project) const;
  // Asks for the files of all of them side by side, so that `files_of` answers at once.
  void fetch_files_of(const std::vector<std::string>& projects) const;
  // Where packages come from in this session.
  [[nodiscard]] const UvIndexes& indexes() const;
  // What had to be done differently from what was asked, one sentence each.
  [[nodiscard]] const std::vector<std::string>& notes() const;

 private:
  struct State;
  explicit UvSession(std::unique_ptr<State> state);
  std::unique_ptr<State> m_state;
};

}  // namespace startrail::lock
