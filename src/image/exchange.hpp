// Exchanging images by the OCI specifications: what layers come from and go to, whatever carries them.
// Words and media types: OCI image specification 1.1 (descriptor, manifest, config, layer, diff id).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace startrail::image {

struct Descriptor {
  std::string media_type;
  std::string digest;      // "sha256:<64 hex>"
  std::uint64_t size = 0;  // bytes
  std::map<std::string, std::string> annotations = {};
  std::string artifact_type = {};  // of a referrer's manifest; else ""
};

// A manifest or an index, as its bytes: they are what its digest is about.
struct ManifestText {
  std::string media_type;
  std::string digest;
  std::string text;
};

// A blob's bytes in order. `read` waits for bytes that are on their way and returns how many it wrote, 0 at the end.
// Nobody has checked them yet: whoever reads hashes.
// Errors: network (after the source's own retries), corrupt (shorter or longer than its descriptor says).
class BlobReader {
 public:
  virtual ~BlobReader() = default;
  [[nodiscard]] virtual Result<std::size_t> read(std::span<std::byte> buffer) = 0;
};

// Where an image is read from: a registry, an OCI layout, a docker archive. Members but `expect` may be called from
// several threads at once.
class ImageSource {
 public:
  virtual ~ImageSource() = default;
  // What messages and records call it, without credentials.
  [[nodiscard]] virtual std::string name() const = 0;
  // By digest, or the one that the source's own name stands for when `digest` is empty; its digest is checked.
  // Errors: not_found, permission, network, hash_mismatch.
  [[nodiscard]] virtual Result<ManifestText> manifest(std::string_view digest) = 0;
  // A small blob (config), whole and checked. Errors: as `manifest`; invalid_input when it is larger than 32 MiB.
  [[nodiscard]] virtual Result<std::string> small_blob(const Descriptor& blob) = 0;
  // These will be opened: a source on the network begins to fetch them, the largest first.
  virtual void expect(const std::vector<Descriptor>& blobs) = 0;
  [[nodiscard]] virtual Result<std::unique_ptr<BlobReader>> open(const Descriptor& blob) = 0;
  // The blob was read, checked, and what came of it is in the store: what was kept for resuming can go.
  virtual void finished(const Descriptor& blob) = 0;
  // What was kept is wrong (its hash differs), so that nobody resumes from it.
  virtual void spoiled(const Descriptor& blob) = 0;
};

// Where an image is written to. Members may be called from several threads at once. What is referred to comes first:
// blobs, then the manifest that names them.
class ImageTarget {
 public:
  virtual ~ImageTarget() = default;
  [[nodiscard]] virtual std::string name() const = 0;
  // It has this blob already, or could take it from a place that it knows (a registry's cross-repository mount).
  [[nodiscard]] virtual Result<bool> has(const Descriptor& blob) = 0;
  // `file` holds exactly the blob; the target copies or uploads it, and may move it away. Returns once it is stored.
  // Errors: permission, network, no_space.
  [[nodiscard]] virtual Result<void> put_file(const Descriptor& blob, const std::filesystem::path& file) = 0;
  [[nodiscard]] virtual Result<void> put_text(const Descriptor& blob, std::string_view text) = 0;
  // The image itself: `tagged` under the target's own name, or by its digest only.
  enum class Naming { tagged, by_digest };
  [[nodiscard]] virtual Result<void> put_manifest(const ManifestText& manifest, Naming naming) = 0;
  // A manifest with a `subject` (SBOM, provenance, attestation), found again by its subject's digest: the referrers
  // API where there is one, else the tag that the distribution specification falls back to.
  [[nodiscard]] virtual Result<void> put_referrer(const ManifestText& manifest, const Descriptor& subject,
                                                  const Descriptor& own) = 0;
};

}  // namespace startrail::image
