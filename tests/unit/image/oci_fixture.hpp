// Archives and images made up on the spot, good ones and bad ones.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/json.hpp"
#include "image/oci/compression.hpp"
#include "image/oci/documents.hpp"
#include "image/oci/import_image.hpp"
#include "image/oci/tar_writer.hpp"
#include "image/verify_store.hpp"
#include "store_fixture.hpp"

namespace startrail::image::testing {

// A tar, entry by entry, in any order and with any names.
class TarBuilder {
 public:
  TarBuilder& file(const std::string& path, const std::string& content, mode_t mode = 0644) {
    m_bytes += tar_header({.path = path, .size = content.size(), .mode = mode}) + content;
    m_bytes.append(tar_padding(content.size()), '\0');
    return *this;
  }
  TarBuilder& folder(const std::string& path, mode_t mode = 0755) {
    return header({.kind = TarItem::Kind::folder, .path = path, .mode = mode});
  }
  TarBuilder& symlink(const std::string& path, const std::string& target) {
    return header({.kind = TarItem::Kind::symlink, .path = path, .target = target, .mode = 0777});
  }
  TarBuilder& hard_link(const std::string& path, const std::string& target) {
    return header({.kind = TarItem::Kind::hard_link, .path = path, .target = target, .mode = 0644});
  }
  TarBuilder& header(const TarItem& item) {
    m_bytes += tar_header(item);
    return *this;
  }
  // The same header with another type flag, its checksum made right again.
  TarBuilder& special(const std::string& path, char type) {
    std::string block = tar_header({.path = path, .mode = 0644});
    block[156] = type;
    return raw(with_checksum(std::move(block)));
  }
  TarBuilder& raw(const std::string& bytes) {
    m_bytes += bytes;
    return *this;
  }
  [[nodiscard]] std::string bytes() const { return m_bytes + std::string(k_tar_end, '\0'); }

  static std::string with_checksum(std::string block) {
    block.replace(148, 8, "        ");
    unsigned sum = 0;
    for (const char letter : block.substr(0, 512)) sum += static_cast<unsigned char>(letter);
    block.replace(148, 8, fmt::format("{:06o}", sum) + std::string("\0 ", 2));
    return block;
  }

 private:
  std::string m_bytes;
};

inline std::string packed(const std::string& bytes, Compression compression = Compression::zstd) {
  const auto piece = pack(compression, std::as_bytes(std::span(bytes)));
  return {reinterpret_cast<const char*>(piece->data()), piece->size()};
}

// An image in memory; what it says of itself can be made wrong.
class MemorySource final : public ImageSource {
 public:
  void add_layer(const std::string& tar, Compression compression = Compression::zstd) {
    const std::string blob = packed(tar, compression);
    layers.push_back(descriptor_of(layer_media_type(compression), blob));
    diff_ids.push_back("sha256:" + base::sha256_hex(tar));
    blobs[layers.back().digest] = blob;
  }
  void finish(const Json& inner = Json::object()) {
    config = base::to_compact_text(Json{{"architecture", own_architecture()},
                                        {"os", "linux"},
                                        {"config", inner},
                                        {"rootfs", {{"type", "layers"}, {"diff_ids", diff_ids}}}});
    text = manifest_of(descriptor_of(k_config_type, config), layers, {});
  }

  std::string name() const override { return "memory"; }
  Result<ManifestText> manifest(std::string_view) override { return text; }
  Result<std::string> small_blob(const Descriptor&) override { return config; }
  void expect(const std::vector<Descriptor>& asked) override { expected = asked; }
  Result<std::unique_ptr<BlobReader>> open(const Descriptor& blob) override {
    ++opened;
    return std::make_unique<Reader>(blobs.at(blob.digest));
  }
  void finished(const Descriptor&) override { ++finished_layers; }
  void spoiled(const Descriptor&) override { ++spoiled_layers; }

  std::vector<Descriptor> layers, expected;
  std::vector<std::string> diff_ids;
  std::map<std::string, std::string> blobs;
  std::string config;
  ManifestText text;
  std::atomic<int> opened{0}, finished_layers{0}, spoiled_layers{0};

 private:
  class Reader final : public BlobReader {
   public:
    explicit Reader(std::string bytes) : m_bytes(std::move(bytes)) {}
    Result<std::size_t> read(std::span<std::byte> buffer) override {
      // In odd pieces, as a network gives them.
      const std::size_t count = std::min({buffer.size(), m_bytes.size() - m_at, std::size_t{7919}});
      std::memcpy(buffer.data(), m_bytes.data() + m_at, count);
      m_at += count;
      return count;
    }

   private:
    std::string m_bytes;
    std::size_t m_at = 0;
  };
};

class ExchangeFixture : public StoreFixture {
 protected:
  Result<Image> import(MemorySource& source, std::vector<std::string> names = {}) {
    base::SilentReporter reporter;
    return import_image(root(), source, {.names = std::move(names), .workers = 2}, reporter);
  }
  // Of an image whose only layer is this.
  Result<Image> import_layer(const std::string& tar, Compression compression = Compression::zstd) {
    MemorySource source;
    source.add_layer(tar, compression);
    source.finish();
    return import(source);
  }
  std::vector<StoreFault> faults() const {
    base::SilentReporter reporter;
    auto found = verify_store(root(), reporter);
    EXPECT_TRUE(found);
    return found ? *found : std::vector<StoreFault>();
  }
};

}  // namespace startrail::image::testing
