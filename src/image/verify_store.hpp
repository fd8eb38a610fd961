// The parts that checking the store and repairing it share.
#pragma once

#include <filesystem>
#include <mutex>
#include <vector>

#include "image/image.hpp"
#include "image/store.hpp"

namespace startrail::image {

// What was found; several threads may add.
class Faults {
 public:
  void add(StoreFault fault);
  [[nodiscard]] std::vector<StoreFault> take();  // sorted by path

 private:
  std::mutex m_mutex;
  std::vector<StoreFault> m_faults;
};

// Everything but folders, at any depth.
[[nodiscard]] std::vector<std::filesystem::path> files_below(const std::filesystem::path& root);
[[nodiscard]] std::vector<std::filesystem::path> entries_of(const std::filesystem::path& folder);

// The caller holds the store, shared or alone.
[[nodiscard]] Result<std::vector<StoreFault>> find_faults(const Store& store, Reporter& reporter);

}  // namespace startrail::image
