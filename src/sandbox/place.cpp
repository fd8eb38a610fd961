#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>

#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {

Result<Place> place_of(const base::Fd& opened, const fs::path& name) {
  struct stat status{};
  if (::fstat(opened.get(), &status) == 0)
    return Place{.device = status.st_dev, .inode = status.st_ino, .owner = status.st_uid};
  return fail(base::errno_error(fmt::format("cannot look at {}", name.string()), errno));
}

Result<Place> place_of(const fs::path& path) {
  return place_of(TRY(base::open_file(path, O_PATH)), path);
}

}  // namespace startrail::sandbox
