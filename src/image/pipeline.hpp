// From addresses to unpacked wheels in the store: everything that can go on at once goes on at once.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/reporter.hpp"
#include "base/transfers.hpp"
#include "image/store.hpp"
#include "image/wheel_tree.hpp"

namespace startrail::image {

struct WheelSource {
  std::string name, version;  // as the lock says
  std::string filename;
  std::string sha256;
  std::uint64_t size = 0;                        // 0: the server says it
  std::string address;                           // "" when only the index knows
  std::function<Result<std::string>()> look_up;  // an address from the index, when `address` fails; may be empty
};

struct PipelineOptions {
  int workers = 0;                  // 0: one per CPU
  base::TransferOptions transfers;  // its window is set from `workers`
  int niceness = 0;                 // of the workers, when something else that goes on is waited for longer (nice(2))
  // Called once per wheel as soon as its tree is in the store, from any worker.
  std::function<Result<void>(const WheelSource& source, const WheelTree& tree, const std::filesystem::path& folder)>
      on_tree;
};

// Bytes of archives that are on the disk at once, beside the trees made from them. A worker that inflates one large
// entry needs about so much in hand to have work until the next file is there.
[[nodiscard]] std::uint64_t archive_window(int workers);

// Brings every wheel into the store. A wheel that another process is working on is waited for, not done twice.
// Trees appear only when the archive's hash, every file's hash and every rule have been checked.
// A wheel of 20 MB or 2 GB takes the same memory: a few buffers per worker and stream.
// Errors: network, not_found, hash_mismatch (also after fetching it once more), corrupt, unsafe_path, no_space,
// each naming the wheel. What was fetched until then stays for the next call.
[[nodiscard]] Result<void> install_wheels(const Store& store, std::vector<WheelSource> sources,
                                          const PipelineOptions& options, Reporter& reporter);

}  // namespace startrail::image
