// What an instance needs beside its image: an SSH server, rsync, pip. A layer of its own, below the base, so that the
// image's id and every file of it stay what they are.
//   bases/instance-<key>/root       the tree
//   bases/instance-<key>/meta.json  what it is made of
#pragma once

#include <filesystem>
#include <string>

#include "base/error.hpp"
#include "base/reporter.hpp"
#include "image/image.hpp"

namespace startrail::image {

// Where sshd is in such a layer, and in any image that has one.
inline constexpr const char* k_ssh_server = "usr/sbin/sshd";

// The layer for this image, made once for each set of packages that a base has: Debian's packages of its suite with
// those that they need and the base lacks, unpacked, nothing of them run. "" when the image has an SSH server itself.
// Errors: unsupported (no Debian, or one of its test suites), and those of ensure_base.
[[nodiscard]] Result<std::filesystem::path> ensure_instance_layer(const std::filesystem::path& store,
                                                                  const Image& image, Reporter& reporter);

}  // namespace startrail::image
