#include "run/git_program.hpp"

#include "base/process.hpp"

namespace startrail::run {
namespace {

// The caller's GIT_DIR and friends speak of another repository.
base::Environment git_environment() {
  base::Environment environment = base::current_environment();
  std::erase_if(environment, [](const auto& entry) { return entry.first.starts_with("GIT_"); });
  environment["GIT_OPTIONAL_LOCKS"] = "0";
  environment["GIT_TERMINAL_PROMPT"] = "0";
  environment["GIT_ALLOW_PROTOCOL"] = "none";  // a partial clone would fetch what it lacks, by a configured program
  environment["LC_ALL"] = "C";
  return environment;
}

}  // namespace

std::optional<std::filesystem::path> repository_of(const std::filesystem::path& folder) {
  std::error_code ignored;
  for (std::filesystem::path at = folder.lexically_normal();; at = at.parent_path()) {
    if (std::filesystem::exists(at / ".git", ignored)) return at;
    if (!at.has_relative_path()) return std::nullopt;
  }
}

std::optional<std::string> run_git(const std::filesystem::path& folder, const std::vector<std::string>& arguments,
                                   ForeignRepositories foreign, std::chrono::milliseconds timeout) {
  base::Command command{.argv = {"git", "-C", folder.string(), "-c", "core.fsmonitor=false"}, .timeout = timeout};
  if (foreign == ForeignRepositories::allowed) command.argv.insert(command.argv.end(), {"-c", "safe.directory=*"});
  command.argv.insert(command.argv.end(), arguments.begin(), arguments.end());
  command.environment = git_environment();
  auto result = base::run_process(command);
  if (!result || result->timed_out || !result->succeeded()) return std::nullopt;
  return std::move(result->output);
}

}  // namespace startrail::run
