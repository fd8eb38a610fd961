// The parts that `ensure` is put together from, so that tests can lend it a small base.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>

#include "base/transfers.hpp"
#include "image/image.hpp"
#include "image/source_build.hpp"

namespace startrail::image {

struct Suppliers {
  std::function<std::optional<BaseSystem>(const std::filesystem::path& store, const std::string& recipe)> find_base;
  std::function<Result<BaseSystem>(const std::filesystem::path& store, const BaseRecipe& recipe, Reporter& reporter)>
      make_base;
  std::function<Result<std::filesystem::path>(const lock::LockedPackage& package, const SourceBuild& build,
                                              const machine::Machine& machine, Reporter& reporter)>
      build_wheel;
  base::TransferOptions transfers;
};
// mmdebstrap, the sandbox, the network.
[[nodiscard]] Suppliers real_suppliers();

[[nodiscard]] Result<Image> ensure_with(const Suppliers& suppliers, const lock::Lock& lock,
                                        const machine::Machine& machine, const EnsureOptions& options,
                                        Reporter& reporter);

// The suite that the lock names, or the one that has its Python. Errors: refused.
[[nodiscard]] Result<std::string> suite_of(const lock::Lock& lock);

}  // namespace startrail::image
