#include "image/environment_tree.hpp"

#include <fmt/format.h>
#include <linux/fs.h>

#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

namespace startrail::image {
namespace {

Result<void> copy_file(int from_folder, const std::string& from, int to_folder, const std::string& to) {
  const base::Fd source(::openat(from_folder, from.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  struct stat status{};
  if (!source.valid() || ::fstat(source.get(), &status) != 0)
    return base::fail(base::errno_error("cannot open " + from, errno));
  const base::Fd target(::openat(to_folder, to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!target.valid()) return base::fail(base::errno_error("cannot create " + to, errno));
  if (::ioctl(target.get(), FICLONE, source.get()) != 0) {
    // Not copy_file_range: between filesystems of different kinds the kernel refuses it.
    for (off_t left = status.st_size; left > 0;) {
      const ssize_t count = ::sendfile(target.get(), source.get(), nullptr, static_cast<std::size_t>(left));
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return base::fail(base::errno_error("cannot copy " + from, count < 0 ? errno : EIO));
      left -= count;
    }
  }
  if (::fchmod(target.get(), status.st_mode & 07777) != 0)
    return base::fail(base::errno_error("cannot set the mode of " + to, errno));
  return {};
}

}  // namespace

std::vector<OwnFile> own_files(const std::string& python) {
  return {{.path = "bin/python", .link = "/usr/bin/python" + python},
          {.path = "bin/python3", .link = "python"},
          {.path = "bin/python" + python, .link = "python"},
          {.path = "lib64", .link = "lib"},
          {.path = "pyvenv.cfg",
           .content = fmt::format("home = /usr/bin\ninclude-system-site-packages = false\nversion = {}\n", python)}};
}

std::vector<OwnFile> own_files(const WheelTree& tree, const std::string& python, const Addition& addition) {
  if (!tree.has_headers() && addition.direct_url.empty()) return {};
  std::vector<OwnFile> files;
  std::vector<TreeFile> additions;
  const std::string info = fmt::format("lib/python{}/site-packages/{}/", python, tree.dist_info);
  if (!addition.direct_url.empty()) {
    base::Sha256 hash;
    hash.update(addition.direct_url);
    additions.push_back({.path = fmt::format("site/{}/direct_url.json", tree.dist_info),
                         .size = addition.direct_url.size(),
                         .digest = hash.finish()});
    files.push_back({.path = info + "direct_url.json", .content = addition.direct_url});
  }
  files.push_back({.path = info + "RECORD", .content = record_text(tree, python, additions)});
  return files;
}

Result<void> link_or_copy(int from_folder, const std::string& from, int to_folder, const std::string& to,
                          bool* copied) {
  if (copied != nullptr) *copied = false;
  if (::linkat(from_folder, from.c_str(), to_folder, to.c_str(), 0) == 0) return {};
  switch (errno) {
    case EXDEV:
    case EMLINK:
    case EPERM:  // another owner's file: fs.protected_hardlinks; or a filesystem without links
    case EOPNOTSUPP:
      if (copied != nullptr) *copied = true;
      return copy_file(from_folder, from, to_folder, to);
    case EEXIST: return base::fail(ErrorCode::conflict, fmt::format("{} exists already", to));
    case ENOTDIR: return base::fail(ErrorCode::conflict, fmt::format("{} lies below a file", to));
    default: return base::fail(base::errno_error(fmt::format("cannot link {}", to), errno));
  }
}

Result<std::unique_ptr<EnvironmentTree>> EnvironmentTree::create(const fs::path& root, const std::string& python) {
  const fs::path prefix = root / k_prefix;
  TRY(base::make_directories(prefix));
  std::unique_ptr<EnvironmentTree> tree(new EnvironmentTree(TRY(Beneath::open(prefix)), python));
  TRY(tree->m_root.make_folder("bin"));
  TRY(tree->m_root.make_folder(fmt::format("lib/python{}/site-packages", python)));
  for (const OwnFile& file : own_files(python)) {
    if (file.link.empty())
      TRY(tree->m_root.write(file.path, file.content, 0444));
    else if (::symlinkat(file.link.c_str(), tree->m_root.descriptor(), file.path.c_str()) != 0)
      return base::fail(base::errno_error(fmt::format("cannot create {}", file.path), errno));
  }
  return tree;
}

// Enters a file into the list of owners; true when `owner` has the place now.
bool EnvironmentTree::claim(const std::string& path, const Owner& owner) {
  const std::scoped_lock lock(m_mutex);
  const auto [place, added] = m_owners.emplace(path, owner);
  if (added) return true;
  Owner& other = place->second;
  const bool wins = owner.name > other.name;
  if (other.digest != owner.digest)
    m_collisions.push_back(
        {.path = path, .winner = wins ? owner.name : other.name, .loser = wins ? other.name : owner.name});
  if (wins) other = owner;
  return wins;
}

bool EnvironmentTree::owns(const std::string& path, const std::string& name) {
  const std::scoped_lock lock(m_mutex);
  const auto found = m_owners.find(path);
  return found != m_owners.end() && found->second.name == name;
}

Result<void> EnvironmentTree::make_parent(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return {};
  const std::string folder = path.substr(0, slash);
  {
    const std::scoped_lock lock(m_mutex);
    if (m_folders.contains(folder)) return {};
  }
  TRY(m_root.make_folder(folder));
  const std::scoped_lock lock(m_mutex);
  m_folders.insert(folder);
  return {};
}

Result<void> EnvironmentTree::link(int folder, const TreeFile& file, const std::string& path, const std::string& name) {
  for (int tries = 0; tries < 100; ++tries) {
    auto linked = link_or_copy(folder, file.path, m_root.descriptor(), path);
    if (linked || linked.error().code != ErrorCode::conflict) return linked;
    // Somebody else's file is here: the owner replaces it, everybody else leaves it.
    if (!owns(path, name)) return {};
    if (::unlinkat(m_root.descriptor(), path.c_str(), 0) != 0 && errno != ENOENT)
      return base::fail(ErrorCode::conflict,
                        fmt::format("/{}/{} is a file of {} and a folder of another package", k_prefix, path, name));
  }
  return base::fail(ErrorCode::internal, fmt::format("cannot link {}", path));
}

Result<void> EnvironmentTree::add(const WheelTree& tree, const fs::path& folder, const Addition& addition) {
  const base::Fd source = TRY(base::open_file(folder, O_RDONLY | O_DIRECTORY));
  const std::string name = normalized_name(tree.name);
  const bool own_record = tree.has_headers() || !addition.direct_url.empty();
  const std::string record = "site/" + tree.dist_info + "/RECORD";
  for (const TreeFile& file : tree.files) {
    if (own_record && file.path == record) continue;
    const std::string path = environment_path(file.path, m_python, tree.name);
    if (!claim(path, {.name = name, .digest = file.digest, .size = file.size})) continue;
    TRY(make_parent(path));
    TRY(link(source.get(), file, path, name));
  }
  for (const OwnFile& file : own_files(tree, m_python, addition)) TRY(m_root.write(file.path, file.content, 0444));
  return {};
}

std::vector<Collision> EnvironmentTree::collisions() const {
  std::vector<Collision> sorted = m_collisions;
  std::ranges::sort(sorted);
  const auto rest = std::ranges::unique(sorted);
  sorted.erase(rest.begin(), rest.end());
  return sorted;
}

std::uint64_t EnvironmentTree::size() const {
  std::uint64_t total = 0;
  for (const auto& [path, owner] : m_owners) total += owner.size;
  return total;
}

}  // namespace startrail::image
