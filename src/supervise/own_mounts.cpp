#include "supervise/own_mounts.hpp"

#include <sys/mount.h>

#include <sstream>
#include <string>
#include <vector>

#include "base/files.hpp"

namespace startrail::supervise {
namespace {

bool is_octal(char c) {
  return c >= '0' && c <= '7';
}

// proc(5), mountinfo: space, tab, newline and backslash are written as \ooo.
std::string unescaped(const std::string& field) {
  std::string text;
  for (std::size_t i = 0; i < field.size(); ++i) {
    if (field[i] == '\\' && i + 3 < field.size() && is_octal(field[i + 1]) && is_octal(field[i + 2]) &&
        is_octal(field[i + 3])) {
      text += static_cast<char>((field[i + 1] - '0') * 64 + (field[i + 2] - '0') * 8 + (field[i + 3] - '0'));
      i += 3;
    } else {
      text += field[i];
    }
  }
  return text;
}

std::vector<std::string> mount_points() {
  std::vector<std::string> points;
  std::istringstream lines(base::read_file("/proc/self/mountinfo").value_or(""));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string id, parent, device, root, point;
    if (fields >> id >> parent >> device >> root >> point) points.push_back(unescaped(point));
  }
  return points;
}

}  // namespace

// In the order of the list a mount comes before those on top of it; detaching it takes them along.
void detach_mounts_below(const fs::path& folder) {
  for (const auto& point : mount_points())
    if (point.starts_with(folder.string() + "/")) ::umount2(point.c_str(), MNT_DETACH | UMOUNT_NOFOLLOW);
}

}  // namespace startrail::supervise
