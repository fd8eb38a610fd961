// What the store knows about a wheel that it has unpacked: meta.json beside its tree.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/json_fwd.hpp"

namespace startrail::image {

struct TreeFile {
  std::string path;  // in the tree: "site/torch/__init__.py", "bin/torchrun", "data/share/…", "headers/…"
  std::uint64_t size = 0;
  base::Sha256Digest digest{};
  bool executable = false;
};

struct WheelTree {
  std::string sha256;  // of the wheel
  std::string filename, name, version;
  std::string dist_info;  // "torch-2.6.0.dist-info"
  std::uint64_t size = 0;
  std::vector<TreeFile> files;  // in order of their paths
  std::vector<std::string> commands, top_level, requires_dist;
  [[nodiscard]] bool has_headers() const;
};

// "cpython-311", as sys.implementation.cache_tag has it, of "3.11".
[[nodiscard]] std::string cache_tag(std::string python);

[[nodiscard]] Json to_json(const WheelTree& tree);
// Errors: corrupt, not_found.
[[nodiscard]] Result<WheelTree> read_wheel_tree(const std::filesystem::path& tree);

// Where a file of the tree lies below the environment (/opt/env): "lib/python3.11/site-packages/torch/__init__.py".
[[nodiscard]] std::string environment_path(std::string_view path, std::string_view python, std::string_view name);
// The RECORD of an environment with this Python: every file of the tree, and `additions` by path in site-packages.
// Format: PyPA "Recording installed projects"; paths relative to site-packages.
[[nodiscard]] std::string record_text(const WheelTree& tree, std::string_view python,
                                      const std::vector<TreeFile>& additions = {});
// "torch_foo.Bar" → "torch-foo-bar" (PyPA "Names and normalization").
[[nodiscard]] std::string normalized_name(std::string_view name);

}  // namespace startrail::image
