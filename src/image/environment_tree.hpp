// The merged tree of an image: hard links into the store's wheel trees, as a virtual environment at /opt/env.
#pragma once

#include <filesystem>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/error.hpp"
#include "base/json_fwd.hpp"
#include "image/beneath.hpp"
#include "image/wheel_tree.hpp"

namespace startrail::image {

inline constexpr const char* k_prefix = "opt/env";

// Two packages bring different files for one place. The alphabetically last package wins, always.
struct Collision {
  std::string path;  // below /opt/env
  std::string winner, loser;
  auto operator<=>(const Collision&) const = default;
};

// What an image adds to a wheel that doesn't come from an index.
struct Addition {
  std::string direct_url;  // content of direct_url.json (PyPA "Recording the Direct URL Origin"); "": none
};

// A file below /opt/env that no wheel brings: a symbolic link, or a text.
struct OwnFile {
  std::string path, link = {}, content = {};
};
// Interpreter links and pyvenv.cfg.
[[nodiscard]] std::vector<OwnFile> own_files(const std::string& python);
// What is written for a wheel instead of its own RECORD, where an image adds to it or places its headers.
[[nodiscard]] std::vector<OwnFile> own_files(const WheelTree& tree, const std::string& python,
                                             const Addition& addition);

class EnvironmentTree {
 public:
  // Makes `root` with the environment's own files: interpreter links and pyvenv.cfg.
  [[nodiscard]] static Result<std::unique_ptr<EnvironmentTree>> create(const std::filesystem::path& root,
                                                                       const std::string& python);
  // Links every file of a wheel's tree at `folder`. The outcome doesn't depend on the order of calls;
  // several threads may add different wheels. Errors: conflict (one package's file is another's folder), no_space.
  [[nodiscard]] Result<void> add(const WheelTree& tree, const std::filesystem::path& folder,
                                 const Addition& addition = {});

  // After the last `add`.
  [[nodiscard]] std::vector<Collision> collisions() const;  // sorted
  [[nodiscard]] std::uint64_t size() const;

 private:
  struct Owner {
    std::string name;  // normalised
    base::Sha256Digest digest;
    std::uint64_t size;
  };
  EnvironmentTree(Beneath root, std::string python) : m_root(std::move(root)), m_python(std::move(python)) {}
  [[nodiscard]] bool claim(const std::string& path, const Owner& owner);
  [[nodiscard]] bool owns(const std::string& path, const std::string& name);
  [[nodiscard]] Result<void> make_parent(const std::string& path);
  [[nodiscard]] Result<void> link(int folder, const TreeFile& file, const std::string& path, const std::string& name);

  Beneath m_root;  // at opt/env
  std::string m_python;
  std::mutex m_mutex;
  std::unordered_map<std::string, Owner> m_owners;
  std::unordered_set<std::string> m_folders;
  std::vector<Collision> m_collisions;
};

// A hard link; where the kernel refuses one (another filesystem, too many links), a reflink or a copy.
// `from` and `to` are relative to their folders. Errors: conflict (`to` exists), no_space, permission.
[[nodiscard]] Result<void> link_or_copy(int from_folder, const std::string& from, int to_folder, const std::string& to,
                                        bool* copied = nullptr);

}  // namespace startrail::image
