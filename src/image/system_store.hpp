// One store for all users of a machine: root's, from which everybody takes what is there and nobody but root changes
// anything. The kernel forbids hard links to files of another owner (fs.protected_hardlinks), so a user's image of the
// same lock is root's tree as a layer below a small tree of the user's own (docs/decisions/0008-system-store.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"

namespace startrail::image {

class Store;

// What this process may take from; an empty path: nothing. Set once, before stores are opened.
void use_system_store(const std::filesystem::path& root);
// Where to look beside the store at `own`; "" when there is nothing, when it is the same, or when it can't be trusted.
[[nodiscard]] std::filesystem::path system_store_beside(const std::filesystem::path& own);
// Why the one that was set can't be trusted: one sentence for the user.
[[nodiscard]] std::optional<std::string> system_store_refusal();

// images/<id>/shared.json: the files of the image are those of this image in the system store.
[[nodiscard]] std::optional<std::filesystem::path> shared_image(const Store& store, const std::string& id);
struct Sharing {
  bool done = false;
  std::string refusal;  // why an image that the system store has was not taken; "" when it has none
};
// Makes images/<id> of `store` stand on the system store's image of the same id, if it has that whole and only root or
// the caller can change it. Who holds the key's lock calls this. Errors: no_space, permission.
[[nodiscard]] Result<Sharing> share_image(const Store& store, const std::string& key, const std::string& id);
// The system store that is set still has what this image stands on, and nobody else can change it; its owner finds it
// in use from here on. An image of the store's own stands always. Errors: not_found, refused, corrupt.
[[nodiscard]] Result<void> check_standing(const Store& store, const std::string& id);

// Until this process ends, whoever takes things out of the store at `folder` finds it in use. `folder` has a
// manifest.json or a meta.json.
void hold_for_life(const std::filesystem::path& folder);
// Nobody else may begin to hold it as long as the result lives; nullopt: somebody holds it.
[[nodiscard]] std::optional<base::Fd> hold_alone(const std::filesystem::path& folder);
// Somebody holds it.
[[nodiscard]] bool is_held(const std::filesystem::path& folder);

}  // namespace startrail::image
