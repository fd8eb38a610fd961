// lock::read_lock on arbitrary bytes; what it accepts must survive being written and read again.
#include <cstdlib>

#include "lock/lock.hpp"
#include "one_file_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const startrail::fuzz::OneFileFolder s_folder("pylock.toml");
  s_folder.fill(data, size);
  const auto lock = startrail::lock::read_lock(s_folder.file());
  if (!lock) return 0;
  if (!startrail::lock::write_lock(*lock, s_folder.file())) return 0;
  const auto again = startrail::lock::read_lock(s_folder.file());
  if (again && startrail::lock::digest(*again) != startrail::lock::digest(*lock)) std::abort();
  return 0;
}
