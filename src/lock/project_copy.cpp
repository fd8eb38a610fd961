#include "lock/project_copy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>

#include "base/files.hpp"
#include "base/hash.hpp"

namespace startrail::lock {
namespace {

constexpr std::uintmax_t k_largest_source = 64ULL << 20U;

// Never part of a package's sources, often huge.
bool is_left_out(const std::string& name) {
  static constexpr std::array k_names{
      ".git",        ".hg",   ".venv", "venv",          "env",         "node_modules",       "__pycache__",
      ".mypy_cache", ".tox",  ".nox",  ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints", "wandb",
      "mlruns",      ".eggs", ".idea", ".vscode"};
  return std::ranges::find(k_names, name) != k_names.end() || name.ends_with(".egg-info");
}

Error walk_error(const fs::path& path, const std::error_code& failure) {
  return base::errno_error("cannot read " + path.string(), failure.value());
}

// Calls `visit` with each entry below `root`, sorted by name, folders before what is in them.
Result<void> walk(const fs::path& root, const fs::path& relative,
                  const std::function<Result<void>(const fs::directory_entry&, const fs::path&)>& visit) {
  std::error_code failure;
  std::vector<fs::directory_entry> entries;
  for (fs::directory_iterator at(root / relative, failure), end; !failure && at != end; at.increment(failure))
    if (!is_left_out(at->path().filename().string())) entries.push_back(*at);
  if (failure) return fail(walk_error(root / relative, failure));
  std::ranges::sort(entries);
  for (const auto& entry : entries) {
    const fs::path name = relative / entry.path().filename();
    TRY(visit(entry, name));
    if (!entry.is_symlink() && entry.is_directory(failure)) TRY(walk(root, name, visit));
  }
  return {};
}

// A link that leads out of the project would be another thing in the sandbox.
bool leads_inside(const fs::path& link, const fs::path& relative) {
  std::error_code failure;
  const fs::path target = fs::read_symlink(link, failure);
  if (failure || target.is_absolute()) return false;
  const fs::path reached = (relative.parent_path() / target).lexically_normal();
  return reached.empty() || *reached.begin() != "..";
}

}  // namespace

Result<ProjectCopy> copy_project(const fs::path& from, const fs::path& to) {
  ProjectCopy copy;
  TRY(base::make_directories(to));
  const auto copy_entry = [&](const fs::directory_entry& entry, const fs::path& relative) -> Result<void> {
    std::error_code failure;
    if (entry.is_symlink()) {
      if (leads_inside(entry.path(), relative)) fs::copy_symlink(entry.path(), to / relative, failure);
    } else if (entry.is_directory(failure)) {
      fs::create_directory(to / relative, failure);
    } else if (entry.is_regular_file(failure)) {
      if (entry.file_size(failure) > k_largest_source) {
        copy.left_out.push_back(relative.generic_string());
      } else {
        fs::copy_file(entry.path(), to / relative, failure);
      }
    }
    if (failure) return fail(base::errno_error("cannot copy " + entry.path().string(), failure.value()));
    return {};
  };
  TRY(walk(from, {}, copy_entry));
  return copy;
}

Result<std::string> tree_digest(const fs::path& folder) {
  base::Sha256 hash;
  const auto add_file = [&](const fs::directory_entry& entry, const fs::path& relative) -> Result<void> {
    std::error_code failure;
    if (entry.is_symlink() || !entry.is_regular_file(failure) || entry.file_size(failure) > k_largest_source) return {};
    const std::string content = TRY(base::sha256_file_hex(entry.path()));
    hash.update(fmt::format("{}\n{}\n", relative.generic_string(), content));
    return {};
  };
  TRY(walk(folder, {}, add_file));
  return base::to_hex(hash.finish());
}

Result<std::string> metadata_digest(const fs::path& folder) {
  base::Sha256 hash;
  for (const char* name : {"pyproject.toml", "setup.py", "setup.cfg"}) {
    std::error_code failure;
    if (!fs::is_regular_file(folder / name, failure)) continue;
    const std::string content = TRY(base::sha256_file_hex(folder / name));
    hash.update(fmt::format("{}\n{}\n", name, content));
  }
  return base::to_hex(hash.finish());
}

}  // namespace startrail::lock
