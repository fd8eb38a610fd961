// One store for all users of a machine: root's, from which everybody takes what is there and nobody but root changes
// anything. The kernel forbids hard links to files of another owner (fs.protected_hardlinks), so a user's image of the
// same lock is root's tree as a layer below a small tree of the user's own (docs/decisions/0008-system-store.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace startrail::image {

class Store;

// What this process may take from; an empty path: nothing. Set once, before stores are opened.
void use_system_store(const std::filesystem::path& root);
// Where to look beside the store at `own`; "" when there is nothing, when it is the same, or when it can't be trusted.
[[nodiscard]] std::filesystem::path system_store_beside(const std::filesystem::path& own);
// Why the one that was set can't be trusted: one sentence for the user.
[[nodiscard]] std::optional<std::string> system_store_refusal();

// Only root or the caller can change what is at `path`: it and every folder above it belong to one of them, and
// others may write in none of them (but for folders like /tmp, in which nobody can replace what isn't theirs).
// Errors: refused, permission, not_found, each naming the path.
[[nodiscard]] Result<void> check_trusted(const std::filesystem::path& path);
// The same of `tree` itself and of all that is below it, links not followed; not of what is above.
[[nodiscard]] Result<void> check_trusted_tree(const std::filesystem::path& tree);

// images/<id>/shared.json: the files of the image are those of this image in the system store.
[[nodiscard]] std::optional<std::filesystem::path> shared_image(const Store& store, const std::string& id);
// Makes images/<id> of `store` stand on the system store's image of the same id, if it has that whole. True when it
// does then. Who holds the key's lock calls this. Errors: no_space, permission.
[[nodiscard]] Result<bool> share_image(const Store& store, const std::string& key, const std::string& id);

// Until this process ends, whoever takes things out of the store at `folder` finds it in use. `folder` has a
// manifest.json or a meta.json.
void hold_for_life(const std::filesystem::path& folder);
// Somebody holds it.
[[nodiscard]] bool is_held(const std::filesystem::path& folder);

}  // namespace startrail::image
