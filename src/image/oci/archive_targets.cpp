#include "image/oci/archive_targets.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <set>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "image/oci/documents.hpp"
#include "image/oci/tar_writer.hpp"

namespace startrail::image {
namespace {

constexpr std::string_view k_layout_text = "{\"imageLayoutVersion\":\"1.0.0\"}";

std::string blob_path(const std::string& digest) {
  return "blobs/sha256/" + digest.substr(7);
}

// One entry for each image, and none for what refers to it: other tools take a layout of several images for a question.
Json index_entry(const ManifestText& manifest, const std::string& tag) {
  Descriptor image{.media_type = manifest.media_type, .digest = manifest.digest, .size = manifest.text.size()};
  if (!tag.empty()) image.annotations = {{std::string(k_ref_name), tag}};
  return to_json(image);
}

Json index_of(Json manifests) {
  return {{"schemaVersion", 2}, {"mediaType", k_index_type}, {"manifests", std::move(manifests)}};
}

// referrers/<digest>.json: what refers to an image, as the referrers API would list it (OCI distribution
// specification).
std::string referrers_path(const Descriptor& subject) {
  return "referrers/" + subject.digest.substr(7) + ".json";
}

Result<void> copy_all(int from, int to, std::uint64_t size, const fs::path& name) {
  for (std::uint64_t left = size; left > 0;) {
    const ssize_t count =
        ::sendfile(to, from, nullptr, static_cast<std::size_t>(std::min<std::uint64_t>(left, 1U << 30U)));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0)
      return base::fail(base::errno_error(fmt::format("cannot write {}", name.string()), count < 0 ? errno : EIO));
    left -= static_cast<std::uint64_t>(count);
  }
  return {};
}

// ---- a folder ----
class FolderTarget final : public ArchiveTarget {
 public:
  FolderTarget(fs::path folder, std::string tag) : m_folder(std::move(folder)), m_tag(std::move(tag)) {}

  Result<void> prepare() {
    std::error_code failed;
    const bool is_layout = fs::exists(m_folder / "oci-layout", failed);
    if (fs::exists(m_folder, failed) && !is_layout &&
        !(fs::is_directory(m_folder, failed) && fs::is_empty(m_folder, failed)))
      return base::fail(
          base::error(ErrorCode::conflict, fmt::format("{} is there already, and is no OCI layout", m_folder.string()))
              .with_hint("name a new folder, or a file that ends in .tar"));
    TRY(base::make_directories(m_folder / "blobs/sha256"));
    return base::write_file_atomic(m_folder / "oci-layout", k_layout_text);
  }

  std::string name() const override { return m_folder.string(); }
  Result<bool> has(const Descriptor& blob) override {
    // Its size alone says little: after a power cut a file may have the right length and none of its bytes.
    const fs::path file = m_folder / blob_path(blob.digest);
    std::error_code failed;
    if (fs::file_size(file, failed) != blob.size || failed) return false;
    const auto digest = base::sha256_file_hex(file);
    return digest && "sha256:" + *digest == blob.digest;
  }
  Result<void> put_file(const Descriptor& blob, const fs::path& file) override {
    const fs::path place = m_folder / blob_path(blob.digest);
    // After a power cut a name must not stand for bytes that never reached the disk.
    const base::Fd from = TRY(base::open_file(file, O_RDONLY));
    if (::fsync(from.get()) == 0 && ::chmod(file.c_str(), 0644) == 0 && ::rename(file.c_str(), place.c_str()) == 0)
      return {};
    if (errno != EXDEV) return base::fail(base::errno_error(fmt::format("cannot write {}", place.string()), errno));
    const fs::path part = place.string() + ".part";
    const base::Fd to = TRY(base::open_file(part, O_WRONLY | O_CREAT | O_TRUNC));
    auto copied = copy_all(from.get(), to.get(), blob.size, part);
    std::error_code ignored;
    if (!copied) fs::remove(part, ignored);
    TRY(std::move(copied));
    if (::fsync(to.get()) == 0 && ::rename(part.c_str(), place.c_str()) == 0) return {};
    return base::fail(base::errno_error(fmt::format("cannot write {}", place.string()), errno));
  }
  Result<void> put_text(const Descriptor& blob, std::string_view text) override {
    return base::write_file_atomic(m_folder / blob_path(blob.digest), text);
  }
  Result<void> put_manifest(const ManifestText& manifest, Naming naming) override {
    TRY(base::write_file_atomic(m_folder / blob_path(manifest.digest), manifest.text));
    if (naming == Naming::tagged) m_image = manifest;
    return {};
  }
  Result<void> put_referrer(const ManifestText& manifest, const Descriptor& subject, const Descriptor& own) override {
    TRY(put_manifest(manifest, Naming::by_digest));
    const fs::path file = m_folder / referrers_path(subject);
    TRY(base::make_directories(file.parent_path()));
    Json list = Json::array();
    if (const auto present = base::read_json_file(file))
      for (const Json& entry : base::member(*present, "manifests"))
        if (base::string_at(entry, "digest") != own.digest) list.push_back(entry);
    list.push_back(to_json(own));
    return base::write_file_atomic(file, base::to_compact_text(index_of(std::move(list))));
  }
  // Last: the index is what makes an image of the blobs.
  Result<void> finish() override {
    Json images = Json::array();
    if (const auto present = base::read_json_file(m_folder / "index.json"))
      for (const Json& entry : base::member(*present, "manifests"))
        if (base::string_at(base::member(entry, "annotations"), k_ref_name) != m_tag &&
            base::string_at(entry, "digest") != m_image.digest)
          images.push_back(entry);
    images.push_back(index_entry(m_image, m_tag));
    return base::write_file_atomic(m_folder / "index.json", base::to_compact_text(index_of(std::move(images))));
  }

 private:
  const fs::path m_folder;
  const std::string m_tag;
  ManifestText m_image;
};

// ---- tar files ----
// A tar file is written beside its name, and locked as long as its writer lives.
std::string part_prefix(const fs::path& name) {
  return fmt::format(".{}.part-", name.filename().string());
}

// What writers of the same name left that were killed.
void remove_dead_parts(const fs::path& name) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(fs::absolute(name).parent_path(), ignored)) {
    if (!entry.path().filename().string().starts_with(part_prefix(name))) continue;
    const base::Fd fd(::open(entry.path().c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
    if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) fs::remove(entry.path(), ignored);
  }
}

class TarTarget : public ArchiveTarget {
 public:
  explicit TarTarget(fs::path file)
      : m_name(std::move(file)), m_part(m_name.parent_path() / fmt::format("{}{}", part_prefix(m_name), ::getpid())) {}
  ~TarTarget() override {
    std::error_code ignored;
    if (m_file.valid()) fs::remove(m_part, ignored);
  }

  Result<void> prepare() {
    remove_dead_parts(m_name);
    m_file = TRY(base::open_file(m_part, O_WRONLY | O_CREAT | O_TRUNC));
    ::flock(m_file.get(), LOCK_EX | LOCK_NB);
    return {};
  }
  std::string name() const override { return m_name.string(); }
  Result<bool> has(const Descriptor& blob) override {
    const std::scoped_lock lock(m_mutex);
    return m_blobs.contains(blob.digest);
  }
  Result<void> put_file(const Descriptor& blob, const fs::path& file) override {
    const base::Fd from = TRY(base::open_file(file, O_RDONLY));
    const std::scoped_lock lock(m_mutex);
    if (!m_blobs.insert(blob.digest).second) return {};
    TRY(add_header(path_of(blob), blob.size));
    TRY(copy_all(from.get(), m_file.get(), blob.size, m_name));
    return add_padding(blob.size);
  }
  Result<void> put_text(const Descriptor& blob, std::string_view text) override {
    const std::scoped_lock lock(m_mutex);
    if (!m_blobs.insert(blob.digest).second) return {};
    return add_text(path_of(blob), text);
  }
  Result<void> finish() override {
    TRY(add_documents());
    TRY(write(std::string(k_tar_end, '\0')));
    if (::fsync(m_file.get()) != 0 || ::rename(m_part.c_str(), m_name.c_str()) != 0)
      return base::fail(base::errno_error(fmt::format("cannot write {}", m_name.string()), errno));
    m_file.reset();
    return {};
  }

 protected:
  [[nodiscard]] virtual std::string path_of(const Descriptor& blob) const = 0;
  [[nodiscard]] virtual Result<void> add_documents() = 0;

  Result<void> add_text(const std::string& path, std::string_view text) {
    TRY(add_header(path, text.size()));
    TRY(write(text));
    return add_padding(text.size());
  }

  std::mutex m_mutex;

 private:
  Result<void> add_header(const std::string& path, std::uint64_t size) {
    return write(tar_header({.path = path, .target = {}, .size = size, .mode = 0644}));
  }
  Result<void> add_padding(std::uint64_t size) { return write(std::string(tar_padding(size), '\0')); }
  Result<void> write(std::string_view text) { return base::write_all(m_file.get(), text, m_name); }

  const fs::path m_name, m_part;
  base::Fd m_file;
  std::set<std::string> m_blobs;
};

class LayoutTarTarget final : public TarTarget {
 public:
  LayoutTarTarget(fs::path file, std::string tag) : TarTarget(std::move(file)), m_tag(std::move(tag)) {}

  Result<void> put_manifest(const ManifestText& manifest, Naming naming) override {
    if (naming == Naming::tagged) m_image = manifest;
    return put_text(descriptor_of(manifest.media_type, manifest.text), manifest.text);
  }
  Result<void> put_referrer(const ManifestText& manifest, const Descriptor& subject, const Descriptor& own) override {
    TRY(put_manifest(manifest, Naming::by_digest));
    m_referrers[referrers_path(subject)].push_back(to_json(own));
    return {};
  }

 private:
  std::string path_of(const Descriptor& blob) const override { return blob_path(blob.digest); }
  Result<void> add_documents() override {
    for (auto& [path, list] : m_referrers) TRY(add_text(path, base::to_compact_text(index_of(list))));
    TRY(add_text("oci-layout", k_layout_text));
    return add_text("index.json", base::to_compact_text(index_of(Json::array({index_entry(m_image, m_tag)}))));
  }

  const std::string m_tag;
  ManifestText m_image;
  std::map<std::string, Json> m_referrers;
};

class DockerTarTarget final : public TarTarget {
 public:
  DockerTarTarget(fs::path file, std::string tag) : TarTarget(std::move(file)), m_tag(std::move(tag)) {}

  Result<void> put_manifest(const ManifestText& manifest, Naming naming) override {
    if (naming == Naming::tagged) m_image = TRY(parse_image_manifest(manifest, "the image"));
    return {};
  }
  // This kind of archive has no place for them.
  Result<void> put_text(const Descriptor& blob, std::string_view text) override {
    return blob.media_type == k_config_type ? TarTarget::put_text(blob, text) : Result<void>();
  }
  Result<void> put_referrer(const ManifestText&, const Descriptor&, const Descriptor&) override { return {}; }

 private:
  std::string path_of(const Descriptor& blob) const override {
    return blob.digest.substr(7) + (blob.media_type == k_config_type ? ".json" : ".tar");
  }
  Result<void> add_documents() override {
    Json layers = Json::array();
    for (const Descriptor& layer : m_image.layers) layers.push_back(path_of(layer));
    const Json image{{"Config", path_of(m_image.config)}, {"RepoTags", {m_tag}}, {"Layers", std::move(layers)}};
    return add_text("manifest.json", base::to_compact_text(Json::array({image})));
  }

  const std::string m_tag;
  OciManifest m_image;
};

template <class Target>
Result<std::unique_ptr<ArchiveTarget>> prepared(const fs::path& path, const std::string& tag) {
  auto target = std::make_unique<Target>(path, tag);
  TRY(target->prepare());
  return target;
}

}  // namespace

Result<std::unique_ptr<ArchiveTarget>> create_archive(const fs::path& path, ArchiveFormat format,
                                                      const std::string& tag) {
  switch (format) {
    case ArchiveFormat::oci_folder: return prepared<FolderTarget>(path, tag);
    case ArchiveFormat::oci_tar: return prepared<LayoutTarTarget>(path, tag);
    case ArchiveFormat::docker_tar: return prepared<DockerTarTarget>(path, tag);
  }
  return base::fail(ErrorCode::internal, "no such format");
}

}  // namespace startrail::image
