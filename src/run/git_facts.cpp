#include "run/git_facts.hpp"

#include <chrono>
#include <optional>
#include <sstream>
#include <string>

#include "base/files.hpp"
#include "base/json.hpp"
#include "run/git_program.hpp"

namespace startrail::run {
namespace {

constexpr std::chrono::milliseconds k_patience{2000};
constexpr std::string_view k_branch_prefix = "refs/heads/";

std::optional<std::string> first_line(const fs::path& file) {
  auto text = base::read_file(file);
  if (!text) return std::nullopt;
  text->resize(std::min(text->find('\n'), text->size()));
  return std::move(*text);
}

// Of a linked worktree or submodule `.git` is a file that says where (gitrepository-layout(5)).
fs::path git_directory(const fs::path& repository) {
  const fs::path entry = repository / ".git";
  std::error_code ignored;
  if (fs::is_directory(entry, ignored)) return entry;
  const auto line = first_line(entry);
  if (!line || !line->starts_with("gitdir: ")) return entry;
  return (repository / line->substr(8)).lexically_normal();
}

// Branches of a linked worktree lie in the main repository.
fs::path common_directory(const fs::path& git_directory) {
  const auto line = first_line(git_directory / "commondir");
  return line ? (git_directory / *line).lexically_normal() : git_directory;
}

std::optional<std::string> packed_commit(const fs::path& common, const std::string& reference) {
  const auto text = base::read_file(common / "packed-refs");
  if (!text) return std::nullopt;
  std::istringstream lines(*text);
  for (std::string line; std::getline(lines, line);)
    if (line.size() == 41 + reference.size() && line.ends_with(" " + reference)) return line.substr(0, 40);
  return std::nullopt;
}

std::optional<std::string> commit_of(const fs::path& repository, const fs::path& git, const std::string& reference) {
  const fs::path common = common_directory(git);
  for (const fs::path& place : {git, common})
    if (auto commit = first_line(place / reference)) return commit;
  if (auto commit = packed_commit(common, reference)) return commit;
  // Another way to store references (reftable), or a branch without a commit.
  auto answer =
      run_git(repository, {"rev-parse", "--verify", "--quiet", "HEAD"}, ForeignRepositories::refused, k_patience);
  if (!answer || answer->size() < 40) return std::nullopt;
  answer->resize(answer->find('\n'));
  return answer;
}

Json dirty(const fs::path& repository) {
  const auto changes =
      run_git(repository, {"status", "--porcelain", "-z", "--untracked-files=no", "--ignore-submodules=all"},
              ForeignRepositories::refused, k_patience);
  return changes ? Json(!changes->empty()) : Json(nullptr);
}

}  // namespace

Json git_facts(const fs::path& folder) {
  const auto repository = repository_of(fs::absolute(folder));
  if (!repository) return nullptr;
  const fs::path git = git_directory(*repository);
  const auto head = first_line(git / "HEAD");
  if (!head) return nullptr;
  Json facts{{"commit", nullptr}, {"branch", nullptr}, {"dirty", nullptr}};
  if (head->starts_with("ref: ")) {
    const std::string reference = head->substr(5);
    if (reference.starts_with(k_branch_prefix)) facts["branch"] = reference.substr(k_branch_prefix.size());
    facts["commit"] = base::or_null(commit_of(*repository, git, reference));
  } else {
    facts["commit"] = *head;
  }
  facts["dirty"] = dirty(*repository);
  return facts;
}

}  // namespace startrail::run
