// Where an instance lies in the state folder, and what of it is seen inside.
//
//   instances/<name>/instance.json   what it is (record.hpp)
//   instances/<name>/scratch/        what was changed inside: the overlay's upper directory, kept
//   instances/<name>/inside/         the service's socket: /run/startrail inside
//   instances/<name>/server/         what sshd reads: /etc/startrail inside, read-only
//   instances/<name>/client/         the key that opens it, and its host key: never seen inside
//   instances/<name>/lock            held while it is started, stopped or removed
//   instances/ssh_config             one Host block each, for the user's ~/.ssh/config to include
#pragma once

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "base/state_paths.hpp"

namespace startrail::instance {

inline constexpr const char* k_server_folder = "/etc/startrail";

struct Place {
  std::filesystem::path folder;
  [[nodiscard]] std::filesystem::path record_file() const { return folder / "instance.json"; }
  [[nodiscard]] std::filesystem::path scratch() const { return folder / "scratch"; }
  [[nodiscard]] std::filesystem::path inside() const { return folder / "inside"; }
  [[nodiscard]] std::filesystem::path server() const { return folder / "server"; }
  [[nodiscard]] std::filesystem::path client() const { return folder / "client"; }
  [[nodiscard]] std::filesystem::path identity_file() const { return client() / "id_ed25519"; }
  [[nodiscard]] std::filesystem::path known_hosts() const { return client() / "known_hosts"; }
  // Beside the folder, never removed: who waits for it must not wake with the lock of a file that is gone.
  [[nodiscard]] std::filesystem::path lock_file() const {
    return folder.parent_path() / ("." + folder.filename().string() + ".lock");
  }
};
[[nodiscard]] Place place_of(const base::StatePaths& paths, const std::string& name);
[[nodiscard]] std::filesystem::path client_configuration_file(const base::StatePaths& paths);

// A name that is a folder's, a host's and a word of ssh's configuration at once: letters, digits, `.`, `_` and `-`, the
// first a letter or a digit, at most 63. Errors: usage.
[[nodiscard]] Result<void> check_name(const std::string& name);
// The nearest such name to a folder's.
[[nodiscard]] std::string name_for_folder(const std::filesystem::path& folder);

}  // namespace startrail::instance
