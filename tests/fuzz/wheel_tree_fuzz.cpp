// image::read_wheel_tree on arbitrary bytes as meta.json; what it accepts must survive being written and read again.
#include <cstdlib>

#include "base/json.hpp"
#include "image/wheel_tree.hpp"
#include "one_file_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace startrail;
  static const fuzz::OneFileFolder s_folder("meta.json");
  s_folder.fill(data, size);
  const auto tree = image::read_wheel_tree(s_folder.folder());
  if (!tree) return 0;
  const std::string text = base::to_compact_text(image::to_json(*tree));
  s_folder.fill(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
  const auto again = image::read_wheel_tree(s_folder.folder());
  if (!again || base::to_compact_text(image::to_json(*again)) != text) std::abort();
  (void)image::record_text(*tree, "3.11");
  return 0;
}
