#include "sandbox/identity.hpp"

#include <fmt/format.h>
#include <pwd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <optional>
#include <vector>

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

struct Numbers {
  std::uint64_t first, last;
};

std::optional<std::uint64_t> field(std::string_view line, int index) {
  for (; index > 0 && !line.empty(); --index) line.remove_prefix(std::min(line.find(':') + 1, line.size()));
  std::uint64_t value = 0;
  if (std::from_chars(line.data(), line.data() + line.size(), value).ec != std::errc{}) return std::nullopt;
  return value;
}

// One number a line at `at` (passwd(5), group(5)); or, with `count_at`, as many from there on (subuid(5)).
void add_numbers(const fs::path& file, int at, std::optional<int> count_at, std::vector<Numbers>& taken) {
  const auto text = base::read_file(file);
  if (!text) return;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    const auto first = field(line, at);
    const auto count = count_at ? field(line, *count_at) : std::optional<std::uint64_t>(1);
    if (first && count && *count > 0) taken.push_back({.first = *first, .last = *first + *count - 1});
  }
}

std::vector<Numbers> taken_numbers(const fs::path& etc) {
  std::vector<Numbers> taken;
  for (const char* file : {"passwd", "group"}) add_numbers(etc / file, 2, std::nullopt, taken);
  for (const char* file : {"subuid", "subgid"}) add_numbers(etc / file, 1, 2, taken);
  std::erase_if(taken, [](const Numbers& range) {
    return range.last < k_first_run_uid || range.first >= k_first_run_uid + k_run_uids;
  });
  return taken;
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

unsigned run_uid(std::string_view id, const fs::path& etc) {
  // FNV-1a: the same on every machine and in every build, unlike std::hash.
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : id) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  const auto wanted = static_cast<std::uint64_t>(hash % k_run_uids) + k_first_run_uid;
  const auto taken = taken_numbers(etc);
  std::uint64_t number = wanted;
  for (std::size_t moves = 0; moves <= 2 * taken.size(); ++moves) {
    const auto in_the_way = std::ranges::find_if(
        taken, [&](const Numbers& range) { return number >= range.first && number <= range.last; });
    if (in_the_way == taken.end()) return static_cast<unsigned>(number);
    number = in_the_way->last + 1;
    if (number >= k_first_run_uid + k_run_uids) number = k_first_run_uid;
  }
  return static_cast<unsigned>(wanted);  // every number is somebody's
}

Identity mapped_identity(std::string_view id) {
  const unsigned number = run_uid(id);
  return {.uid = number,
          .gid = number,
          .host_uid = number,
          .host_gid = number,
          .user_name = std::string(k_default_name),
          .how = fmt::format("uid {}", number)};
}

Result<Identity> unmapped_identity(const fs::path& reference, uid_t owner, gid_t group) {
  if (const auto uid = id_variable("SUDO_UID")) {
    Identity identity = plain_identity(*uid, id_variable("SUDO_GID").value_or(*uid));
    identity.how = fmt::format("uid {}, who called sudo; file owners can't be mapped here", *uid);
    return identity;
  }
  if (owner == 0)
    return fail(
        base::error(ErrorCode::unsupported,
                    fmt::format("{} belongs to root, its filesystem can't map file owners, and a run is never root",
                                reference.string()))
            .with_hint(fmt::format("give the folder to a user: `chown -R USER {}`", reference.string()))
            .with_hint("or call trail as an ordinary user, or keep the folder on a local disk"));
  Identity identity = plain_identity(owner, group);
  identity.how = fmt::format("uid {}, who owns {}; file owners can't be mapped here", owner, reference.string());
  return identity;
}

std::string with_user(std::string_view passwd, const Identity& identity, std::string_view home,
                      std::string_view shell) {
  return with_entry(passwd, "root:x:0:0:root:/root:/bin/bash\n", identity.user_name,
                    fmt::format("{}:x:{}:{}:{}:{}:{}\n", identity.user_name, identity.uid, identity.gid,
                                identity.user_name, home, shell));
}

std::string with_group(std::string_view group, const Identity& identity) {
  return with_entry(group, "root:x:0:\n", identity.user_name,
                    fmt::format("{}:x:{}:\n", identity.user_name, identity.gid));
}

std::string with_terminal_group(std::string_view group, unsigned gid) {
  std::string result;
  for (std::size_t start = 0; start < group.size();) {
    const std::size_t end = std::min(group.find('\n', start), group.size());
    const std::string_view line = group.substr(start, end - start);
    start = end + 1;
    if (!line.starts_with("tty:")) result.append(line).append("\n");
  }
  return result + fmt::format("tty:x:{}:\n", gid);
}

}  // namespace startrail::sandbox
