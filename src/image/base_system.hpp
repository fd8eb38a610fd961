// Bases: Debian root filesystems made by mmdebstrap, content-addressed. The public calls (base_recipe,
// ensure_base, find_base) are in image.hpp; here are the parts that tests look at.
//   bases/<content digest>/root       the tree
//   bases/<content digest>/meta.json  recipe, package versions, size, times
//   bases/recipe-<recipe digest>      names the content digest that this recipe gave
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/json_fwd.hpp"
#include "base/units.hpp"
#include "image/image.hpp"

namespace startrail::image {

// What mmdebstrap is asked for.
struct BaseBuild {
  std::string mode;                            // "root", "unshare", "fakechroot" (mmdebstrap(1), MODES)
  std::filesystem::path target;                // a folder for root, else a tar file
  std::vector<std::filesystem::path> sources;  // the host's own apt sources for this suite; empty: mmdebstrap's mirrors
};
// The way in which this user can run it. Errors: not_found (what is missing, and the command that brings it).
[[nodiscard]] Result<std::string> mmdebstrap_mode();
// Nothing of the caller's shell may reach maintainer scripts; the proxies and the place for temporary files must.
[[nodiscard]] base::Environment mmdebstrap_environment();
[[nodiscard]] std::vector<std::string> mmdebstrap_arguments(const BaseRecipe& recipe, const BaseBuild& build);

// The host's apt source files, if it is the same suite of Debian and trusts them by Debian's own keyring.
[[nodiscard]] std::vector<std::filesystem::path> host_sources(const std::filesystem::path& host_root,
                                                              std::string_view suite);

// What mmdebstrap's messages mean for the user. Codes: refused (a package that the suite lacks), network, no_space,
// not_found (the suite), internal.
[[nodiscard]] Error mmdebstrap_error(std::string_view messages, const BaseRecipe& recipe,
                                     const std::filesystem::path& log);

// Unpacks a tar into `root` as the caller's own files, times kept (bytecode is checked by them); devices are left out.
// Errors: corrupt, unsafe_path, no_space.
[[nodiscard]] Result<void> unpack_base(const std::filesystem::path& tar, const std::filesystem::path& root);

// Takes out what differs for no reason (logs, lists, caches, machine ids, password hashes), drops setuid and others'
// write bits, and adds the places that containers mount on.
[[nodiscard]] Result<void> normalise_base(const std::filesystem::path& root);

// What a file of a tree that others run may have of its mode: nobody inside may gain rights by it (no setuid, no
// setgid), nor change it for all (no group's or others' write bit). Shared temporary folders stay what they are.
enum class FileType { file, folder };
[[nodiscard]] mode_t safe_mode(mode_t mode, FileType type);

struct TreeDigest {
  std::string sha256;  // of the sorted listing: type, mode, path, content or target; owners and times don't count
  Bytes size;
};
// One whose content has this digest, whatever recipe it was made by: content can be trusted by its digest.
[[nodiscard]] std::optional<BaseSystem> find_base_by_digest(const std::filesystem::path& store,
                                                            const std::string& recipe, const std::string& digest);

[[nodiscard]] Result<TreeDigest> digest_tree(const std::filesystem::path& root);

// {"libc6": "2.36-9+deb12u10", …} from the tree's dpkg status.
[[nodiscard]] Json installed_packages(const std::filesystem::path& root);

}  // namespace startrail::image
