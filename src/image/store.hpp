// Where the store keeps what, and who may write it. Every path below `store` that this module uses is made here.
//
//   wheels/<sha256>.v1/{meta.json, site/, bin/, data/, headers/}   unpacked once, read-only
//   downloads/<sha256>.part{,.journal}                             arriving
//   built/<key>.json                                               sdist, commit or folder → the wheel made from it
//   images/<id>/{manifest.json, details.json, tree/, bytecode/}    hard links into wheels/
//   bytecode/<sha256>-<tag>.v1/                                    compiled once per wheel and Python
//   layers/<diff id>.v1/{contents.json, files/}                    of images from elsewhere (oci/layer_contents.hpp)
//   exported/<key>.json                                            layers that were written once: their digests
//   names.json                                                     what images are called here
//   staging/<key>/                                                 unfinished; becomes one of the above by one rename
//   unsynced/<machine>.<boot>/<kind>@<name>                        what the disk may not have yet (unsynced.hpp)
//   locks/<key>.lock                                               whoever holds it may write what has this key
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"

namespace startrail::image {

// Changes whenever what a tree holds, or how it is laid out, changes.
inline constexpr std::string_view k_layout = "v1";

class Store {
 public:
  // Makes the folders. Errors: permission, no_space.
  [[nodiscard]] static Result<Store> open(const std::filesystem::path& root);
  // For looking only: nothing is made, nothing need exist.
  [[nodiscard]] static Store at(const std::filesystem::path& root) { return Store(root); }

  [[nodiscard]] const std::filesystem::path& root() const { return m_root; }
  [[nodiscard]] std::filesystem::path wheel(std::string_view sha256) const;
  [[nodiscard]] std::filesystem::path part(std::string_view sha256) const;
  [[nodiscard]] std::filesystem::path image(std::string_view id) const;  // with or without "sha256:"
  [[nodiscard]] std::filesystem::path built(std::string_view key) const;
  [[nodiscard]] std::filesystem::path bytecode(std::string_view sha256, std::string_view python) const;
  [[nodiscard]] std::filesystem::path layer(std::string_view diff_id) const;  // with or without "sha256:"
  [[nodiscard]] std::filesystem::path staging(std::string_view key) const;
  [[nodiscard]] std::filesystem::path base(std::string_view digest) const;
  [[nodiscard]] std::filesystem::path folder(std::string_view name) const { return m_root / name; }

  [[nodiscard]] bool has_wheel(std::string_view sha256) const;
  // The system store that this one takes from; "" for none (system_store.hpp). Paths of wheels, bytecode and bases are
  // there when they are whole there and not here.
  [[nodiscard]] const std::filesystem::path& system() const { return m_system; }

  // Held, shared, by whoever relies on what the store has; `alone` waits a while for all of them.
  // Errors: conflict (somebody else is at work).
  [[nodiscard]] Result<base::Fd> use() const;
  [[nodiscard]] Result<base::Fd> alone(std::chrono::seconds patience) const;

  // The right to write what has this key. Whoever gets it finds no staging left by a dead owner.
  [[nodiscard]] Result<base::FileLock> lock(std::string_view key) const;
  [[nodiscard]] Result<std::optional<base::FileLock>> try_lock(std::string_view key) const;
  // staging/<key> becomes `place`; a whole one that is there already wins, a damaged one is replaced. The caller holds
  // the key's lock.
  [[nodiscard]] Result<void> publish(std::string_view key, const std::filesystem::path& place) const;
  // Removes a tree, by one rename first: what is half removed must not look whole.
  [[nodiscard]] Result<void> discard(const std::filesystem::path& tree) const;
  // What dead owners left in staging. The caller holds `use`.
  [[nodiscard]] std::vector<std::filesystem::path> stale_staging() const;

 private:
  explicit Store(std::filesystem::path root);
  [[nodiscard]] std::filesystem::path here_or_there(const std::filesystem::path& place) const;
  std::filesystem::path m_root, m_system;
};

// Somebody holds this lock file just now.
[[nodiscard]] bool is_locked(const std::filesystem::path& file);
[[nodiscard]] std::string wheel_key(std::string_view sha256);

}  // namespace startrail::image
