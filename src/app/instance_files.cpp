#include "app/instance_files.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/files.hpp"
#include "instance/ssh_key.hpp"
#include "instance/ssh_texts.hpp"

namespace startrail::app {
namespace {

// The container's user stands for the workspace's owner, here as in its volumes, where this filesystem can't map
// owners.
Result<void> give_to_workspace_owner(const instance::Record& record, const fs::path& path) {
  struct stat status{};
  if (::geteuid() != 0 || ::stat(record.spec.workspace.c_str(), &status) != 0) return {};
  if (::lchown(path.c_str(), status.st_uid, status.st_gid) == 0) return {};
  return fail(base::errno_error(fmt::format("cannot give {} to uid {}", path.string(), status.st_uid), errno));
}

Result<void> write_for_inside(const instance::Record& record, const fs::path& file, const std::string& text) {
  TRY(base::write_file_atomic(file, text, 0600));
  return give_to_workspace_owner(record, file);
}

Result<void> make_keys(const instance::Place& place, const instance::Record& record) {
  std::error_code ignored;
  // The last one that is written tells that all are there.
  if (fs::exists(place.known_hosts(), ignored)) return {};
  const auto host = TRY(instance::make_ssh_key(record.name));
  const auto user = TRY(instance::make_ssh_key("trail-" + record.name));
  TRY(write_for_inside(record, place.server() / "host_key", host.private_file));
  TRY(write_for_inside(record, place.server() / "authorized_keys", user.public_line + "\n"));
  TRY(base::write_file_atomic(place.identity_file(), user.private_file, 0600));
  TRY(base::write_file_atomic(place.identity_file().string() + ".pub", user.public_line + "\n", 0600));
  return base::write_file_atomic(place.known_hosts(),
                                 instance::host_key_alias(record.name) + " " + host.public_line + "\n", 0600);
}

// A program that was replaced since this process began has its new file at the same place.
fs::path lasting_program(const Installation& installation) {
  std::error_code failed;
  std::string real = fs::read_symlink("/proc/self/exe", failed).string();
  constexpr std::string_view k_gone = " (deleted)";
  if (real.ends_with(k_gone)) real.resize(real.size() - k_gone.size());
  return failed ? installation.program : fs::path(real);
}

}  // namespace

Result<void> make_instance_files(const Installation& installation, const instance::Record& record) {
  const auto place = instance::place_of(installation.paths, record.name);
  for (const fs::path& folder : {place.inside(), place.server(), place.client(), place.scratch()})
    TRY(base::make_directories(folder, 0700));
  for (const fs::path& folder : {place.inside(), place.server()}) TRY(give_to_workspace_owner(record, folder));
  TRY(make_keys(place, record));
  return write_for_inside(record, place.server() / "sshd_config", instance::server_configuration());
}

Result<void> write_client_configuration(const Installation& installation) {
  const auto lock = TRY(base::FileLock::acquire(installation.paths.instances() / ".ssh_config.lock"));
  std::string text = "# Written by trail at each `trail up` and `trail rm`: changes here are lost.\n";
  for (const auto& record : instance::list_records(installation.paths)) {
    if (!record.has_ssh || record.user.empty()) continue;
    const auto place = instance::place_of(installation.paths, record.name);
    text += "\n" + instance::client_block({.name = record.name,
                                           .user = record.user,
                                           .program = lasting_program(installation),
                                           .state = installation.paths.root,
                                           .identity = place.identity_file(),
                                           .known_hosts = place.known_hosts()});
  }
  const fs::path file = instance::client_configuration_file(installation.paths);
  if (base::read_file(file).value_or("") == text) return {};
  return base::write_file_atomic(file, text, 0600);
}

}  // namespace startrail::app
