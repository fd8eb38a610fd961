#include "sandbox/identity.hpp"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <optional>

namespace startrail::sandbox {
namespace {

constexpr std::string_view k_default_name = "trail";

std::string host_name_of(uid_t uid) {
  std::array<char, 4096> buffer{};
  passwd entry{};
  passwd* found = nullptr;
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) return entry.pw_name;
  return std::string(k_default_name);
}

std::optional<unsigned> id_variable(const char* name) {
  const auto text = base::environment_variable(name);
  unsigned id = 0;
  if (!text || std::from_chars(text->data(), text->data() + text->size(), id).ec != std::errc{} || id == 0)
    return std::nullopt;
  return id;
}

Identity plain_identity(unsigned uid, unsigned gid) {
  return {.uid = uid, .gid = gid, .host_uid = uid, .host_gid = gid, .user_name = host_name_of(uid), .how = {}};
}

// Lines of `file`, without those whose first field is `name`; `entry` goes after the first line (root's).
std::string with_entry(std::string_view file, std::string_view root_line, std::string_view name,
                       const std::string& entry) {
  if (file.empty()) file = root_line;
  std::string result;
  bool placed = false;
  for (std::size_t start = 0; start < file.size();) {
    const std::size_t end = std::min(file.find('\n', start), file.size());
    const std::string_view line = file.substr(start, end - start);
    start = end + 1;
    if (line.empty() || line.substr(0, line.find(':')) == name) continue;
    result.append(line).append("\n");
    if (!placed) result += entry;
    placed = true;
  }
  return result;
}

}  // namespace

Identity caller_identity(uid_t uid, gid_t gid) {
  Identity identity = plain_identity(uid, gid);
  identity.how = fmt::format("uid {}, the caller's own, in a user namespace", uid);
  return identity;
}

Identity mapped_identity() {
  return {.uid = k_unprivileged_id,
          .gid = k_unprivileged_id,
          .host_uid = k_unprivileged_id,
          .host_gid = k_unprivileged_id,
          .user_name = std::string(k_default_name),
          .how = fmt::format("uid {}", k_unprivileged_id)};
}

Result<Identity> unmapped_identity(const fs::path& reference) {
  if (const auto uid = id_variable("SUDO_UID")) {
    Identity identity = plain_identity(*uid, id_variable("SUDO_GID").value_or(*uid));
    identity.how = fmt::format("uid {}, who called sudo; file owners can't be mapped here", *uid);
    return identity;
  }
  struct stat status{};
  if (::stat(reference.c_str(), &status) != 0)
    return fail(base::errno_error(fmt::format("cannot read the owner of {}", reference.string()), errno));
  if (status.st_uid == 0)
    return fail(
        base::error(ErrorCode::unsupported,
                    fmt::format("{} belongs to root, its filesystem can't map file owners, and a run is never root",
                                reference.string()))
            .with_hint(fmt::format("give the folder to a user: `chown -R USER {}`", reference.string()))
            .with_hint("or call trail as an ordinary user, or keep the folder on a local disk"));
  Identity identity = plain_identity(status.st_uid, status.st_gid);
  identity.how =
      fmt::format("uid {}, who owns {}; file owners can't be mapped here", status.st_uid, reference.string());
  return identity;
}

std::string with_user(std::string_view passwd, const Identity& identity, std::string_view home) {
  return with_entry(passwd, "root:x:0:0:root:/root:/bin/bash\n", identity.user_name,
                    fmt::format("{}:x:{}:{}:{}:{}:/bin/bash\n", identity.user_name, identity.uid, identity.gid,
                                identity.user_name, home));
}

std::string with_group(std::string_view group, const Identity& identity) {
  return with_entry(group, "root:x:0:\n", identity.user_name,
                    fmt::format("{}:x:{}:\n", identity.user_name, identity.gid));
}

}  // namespace startrail::sandbox
