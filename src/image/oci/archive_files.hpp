// The files of an image that lies on this machine: in a folder, or in a tar file of any compression.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/units.hpp"
#include "image/exchange.hpp"

namespace startrail::image {

// `size` bytes of a file from `offset` on.
class FileReader final : public BlobReader {
 public:
  FileReader(base::Fd file, std::uint64_t offset, std::uint64_t size)
      : m_file(std::move(file)), m_offset(offset), m_left(size) {}
  [[nodiscard]] Result<std::size_t> read(std::span<std::byte> buffer) override;

 private:
  base::Fd m_file;
  std::uint64_t m_offset, m_left;
};

// Undoes the compression of what another reader gives.
[[nodiscard]] std::unique_ptr<BlobReader> expanded(std::unique_ptr<BlobReader> packed);

// Members may be called from several threads at once.
class ArchiveFiles {
 public:
  virtual ~ArchiveFiles() = default;
  struct Place {
    base::Fd file;
    std::uint64_t offset = 0, size = 0;
  };
  // Errors: not_found.
  [[nodiscard]] virtual Result<Place> find(const std::string& path) const = 0;
  [[nodiscard]] bool has(const std::string& path) const { return find(path).has_value(); }
  // Errors: not_found, invalid_input (larger than `limit`).
  [[nodiscard]] Result<std::string> read(const std::string& path, Bytes limit = {32U << 20U}) const;
  [[nodiscard]] Result<std::unique_ptr<BlobReader>> open(const std::string& path) const;
};

// A folder, or a tar file; a compressed one is expanded first, into a file in `scratch` that is gone with this.
// Errors: not_found, corrupt (no tar), no_space.
[[nodiscard]] Result<std::unique_ptr<ArchiveFiles>> open_archive_files(const std::filesystem::path& path,
                                                                       const std::filesystem::path& scratch);

}  // namespace startrail::image
