// project::read on a folder whose Pipfile is arbitrary bytes: an answer or an error, never a crash.
#include "one_file_folder.hpp"
#include "project/requirements.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const startrail::fuzz::OneFileFolder s_folder("Pipfile");
  s_folder.fill(data, size);
  (void)startrail::project::read(s_folder.folder(), {});
  return 0;
}
