#include "image/base_provider.hpp"

#include "image/debian_package.hpp"
#include "image/image.hpp"

namespace startrail::image {

lock::BaseProvider base_provider(const fs::path& store, const machine::Machine& machine) {
  return {
      .recipe_digest = [](const std::string& suite,
                          const std::vector<std::string>& packages) { return base_recipe(suite, packages).digest; },
      .ensure = [store](const std::string& suite, const std::vector<std::string>& packages, Reporter& reporter)
          -> Result<fs::path> { return TRY(ensure_base(store, base_recipe(suite, packages), reporter)).root; },
      .layers = [store, &machine](const lock::Lock& lock, const fs::path& lock_directory,
                                  Reporter& reporter) -> Result<std::vector<fs::path>> {
        return TRY(image::ensure(lock, machine, {.store = store, .lock_directory = lock_directory}, reporter)).layers;
      },
      .unpack_package = unpack_debian_package,
  };
}

}  // namespace startrail::image
