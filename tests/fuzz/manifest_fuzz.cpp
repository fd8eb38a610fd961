// image::read_manifest on arbitrary bytes that lie where their hash says; what it accepts can be written and read
// again.
#include <cstdlib>

#include "base/hash.hpp"
#include "image/image_folder.hpp"
#include "one_file_folder.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace startrail;
  const std::string id = base::sha256_hex({reinterpret_cast<const char*>(data), size});
  const std::string file = "store/images/" + id + "/manifest.json";
  const fuzz::OneFileFolder folder(file.c_str());
  folder.fill(data, size);
  const image::Store store = image::Store::at(folder.folder() / "store");
  const auto manifest = image::read_manifest(store, id);
  if (!manifest) return 0;
  (void)image::image_from_manifest(store, id, *manifest);
  if (image::manifest_text(*manifest).empty()) std::abort();
  return 0;
}
