#include "run/snapshot_listing.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <deque>

#include "base/files.hpp"
#include "run/beneath.hpp"
#include "run/git_program.hpp"

namespace startrail::run {
namespace {

constexpr std::size_t k_most_files = 50'000;
constexpr std::chrono::milliseconds k_git_patience{20'000};

bool is_skipped_folder(const std::string& name) {
  static constexpr std::array<std::string_view, 16> k_skipped{
      ".git",        ".hg",           ".svn", "__pycache__", ".venv", "venv", "node_modules",       ".mypy_cache",
      ".ruff_cache", ".pytest_cache", ".tox", ".nox",        ".eggs", ".jj",  ".ipynb_checkpoints", ".cache"};
  return std::ranges::find(k_skipped, name) != k_skipped.end();
}

// A virtual or conda environment under any name.
bool is_environment(const fs::path& folder) {
  return ::access((folder / "pyvenv.cfg").c_str(), F_OK) == 0 || ::access((folder / "conda-meta").c_str(), F_OK) == 0;
}

bool is_skipped_file(std::string_view name) {
  return name.ends_with(".pyc") || name.ends_with(".pyo") || name == ".DS_Store";
}

class Walk {
 public:
  Walk(fs::path root, std::string prefix, Listing& listing)
      : m_root(std::move(root)), m_prefix(std::move(prefix)), m_listing(listing) {}

  // Breadth first: when there are too many files, those near the root are the code.
  void run() {
    struct stat status{};
    if (::stat(m_root.c_str(), &status) != 0) return;
    m_device = status.st_dev;
    m_pending.emplace_back("");
    while (!m_pending.empty() && m_listing.paths.size() <= k_most_files) {
      const std::string folder = std::move(m_pending.front());
      m_pending.pop_front();
      visit(folder);
    }
  }

 private:
  void visit(const std::string& folder) {
    std::error_code failed;
    auto entry = fs::directory_iterator(m_root / folder, failed);
    if (failed) return omit(folder, failed.message());
    for (; entry != fs::directory_iterator(); entry.increment(failed)) {
      if (failed) return omit(folder, failed.message());
      const std::string name = entry->path().filename();
      const std::string path = folder.empty() ? name : folder + "/" + name;
      std::error_code unknown;
      if (entry->symlink_status(unknown).type() == fs::file_type::directory) {
        consider_folder(entry->path(), name, path);
      } else if (!is_skipped_file(name)) {
        m_listing.paths.push_back(m_prefix + path);
      }
    }
  }

  void consider_folder(const fs::path& folder, const std::string& name, const std::string& path) {
    if (is_skipped_folder(name) || is_environment(folder)) return;
    struct stat status{};
    if (::lstat(folder.c_str(), &status) != 0) return;
    // A mounted dataset may hold millions of files.
    if (status.st_dev != m_device) return omit(path, "another filesystem");
    m_pending.push_back(path);
  }

  void omit(const std::string& path, std::string_view reason) {
    m_listing.omitted.push_back(fmt::format("{}{} ({})", m_prefix, path, reason));
  }

  fs::path m_root;
  std::string m_prefix;
  Listing& m_listing;
  dev_t m_device = 0;
  std::deque<std::string> m_pending;
};

std::vector<std::string> split_at_zeros(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t end = 0; (end = text.find('\0')) != std::string_view::npos; text.remove_prefix(end + 1))
    if (end > 0) parts.emplace_back(text.substr(0, end));
  return parts;
}

void list_into(const fs::path& folder, const std::string& prefix, Listing& listing);

// `ls-files` runs nothing that the repository configures, so another owner's repository (root on a user's folder) is
// fine.
bool list_by_git(const fs::path& folder, const std::string& prefix, Listing& listing) {
  const auto output = run_git(folder, {"ls-files", "--cached", "--others", "--exclude-standard", "-z"},
                              ForeignRepositories::allowed, k_git_patience);
  auto beneath = Beneath::open(folder);
  if (!output || output->empty() || !beneath) return false;
  for (std::string& path : split_at_zeros(*output)) {
    // A nested repository is listed with a slash, a submodule without one.
    while (path.ends_with('/')) path.pop_back();
    // The index may name a folder that lies behind what is a link now.
    const auto status = beneath->look_at(path);
    if (status && S_ISDIR(status->st_mode)) {
      list_into(folder / path, prefix + path + "/", listing);
    } else {
      listing.paths.push_back(prefix + path);
    }
  }
  return true;
}

void list_into(const fs::path& folder, const std::string& prefix, Listing& listing) {
  if (repository_of(folder) && list_by_git(folder, prefix, listing)) return;
  Walk(folder, prefix, listing).run();
}

std::ptrdiff_t depth(const std::string& path) {
  return std::ranges::count(path, '/');
}

void cap(Listing& listing) {
  if (listing.paths.size() <= k_most_files) return;
  std::ranges::stable_sort(listing.paths, {}, depth);
  listing.omitted.push_back(fmt::format("{} or more further files (over the cap of {} files)",
                                        listing.paths.size() - k_most_files, k_most_files));
  listing.paths.resize(k_most_files);
  std::ranges::sort(listing.paths);
}

}  // namespace

Result<Listing> list_files(const fs::path& folder) {
  if (::access(folder.c_str(), R_OK | X_OK) != 0)
    return fail(base::errno_error(fmt::format("cannot list {}", folder.string()), errno));
  Listing listing;
  list_into(folder, "", listing);
  // The index holds a conflicted file up to three times.
  std::ranges::sort(listing.paths);
  listing.paths.erase(std::ranges::unique(listing.paths).begin(), listing.paths.end());
  cap(listing);
  return listing;
}

}  // namespace startrail::run
