#include "image/oci/archive_sources.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/hash.hpp"
#include "base/json.hpp"
#include "image/oci/archive_files.hpp"
#include "image/oci/compression.hpp"
#include "image/oci/documents.hpp"

namespace startrail::image {
namespace {

constexpr std::size_t k_listed = 5;

std::unexpected<Error> which_one(const std::string& name, const std::vector<std::string>& names,
                                 const std::string& wanted) {
  std::vector<std::string> some(names.begin(),
                                names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), k_listed)));
  const std::string list = fmt::format("{}", fmt::join(some, ", "));
  if (!wanted.empty())
    return base::fail(base::error(ErrorCode::not_found, fmt::format("{} has no image {}", name, wanted))
                          .with_context("it has " + (list.empty() ? "none with a name" : list)));
  return base::fail(base::error(ErrorCode::invalid_input, fmt::format("{} has {} images", name, names.size()))
                        .with_context("they are " + list)
                        .with_hint(fmt::format("say which: --image {}", some.empty() ? "NAME" : some.front())));
}

// What all sources of files have in common.
class FileSource : public ImageSource {
 public:
  FileSource(std::string name, std::unique_ptr<ArchiveFiles> files)
      : m_name(std::move(name)), m_files(std::move(files)) {}
  std::string name() const override { return m_name; }
  void expect(const std::vector<Descriptor>&) override {}
  void finished(const Descriptor&) override {}
  void spoiled(const Descriptor&) override {}

 protected:
  Result<std::string> checked(std::string text, const std::string& digest) const {
    if ("sha256:" + base::sha256_hex(text) == digest) return text;
    return base::fail(ErrorCode::hash_mismatch,
                      fmt::format("{} holds something else as {}", m_name, digest.substr(0, 19)));
  }
  const std::string m_name;
  const std::unique_ptr<ArchiveFiles> m_files;
};

// ---- OCI layouts ----
class LayoutSource final : public FileSource {
 public:
  LayoutSource(std::string name, std::unique_ptr<ArchiveFiles> files, Descriptor image)
      : FileSource(std::move(name), std::move(files)), m_image(std::move(image)) {}

  Result<ManifestText> manifest(std::string_view digest) override {
    const std::string wanted(digest.empty() ? m_image.digest : digest);
    if (!is_digest(wanted)) return base::fail(ErrorCode::corrupt, fmt::format("`{}` is no digest", wanted));
    ManifestText manifest{.media_type = {}, .digest = wanted, .text = TRY(blob(wanted))};
    const Json json = TRY(base::parse_json(manifest.text, m_name));
    manifest.media_type =
        base::string_at(json, "mediaType", wanted == m_image.digest ? m_image.media_type : k_manifest_type);
    return manifest;
  }
  Result<std::string> small_blob(const Descriptor& wanted) override { return blob(wanted.digest); }
  Result<std::unique_ptr<BlobReader>> open(const Descriptor& wanted) override {
    return m_files->open(path(wanted.digest));
  }

 private:
  static std::string path(const std::string& digest) { return "blobs/sha256/" + digest.substr(7); }
  Result<std::string> blob(const std::string& digest) const {
    std::string text = TRY(m_files->read(path(digest)));
    return checked(std::move(text), digest);
  }
  Descriptor m_image;
};

Result<OpenedArchive> open_layout(std::string name, std::unique_ptr<ArchiveFiles> files, const std::string& wanted) {
  const std::string text = TRY(files->read("index.json"));
  const Json index = TRY(base::parse_json(text, name + "/index.json"));
  std::vector<Descriptor> found;
  std::vector<std::string> names;
  for (const Json& entry : base::member(index, "manifests")) {
    Descriptor image = TRY_CONTEXT(descriptor_from(entry), "in index.json of " + name);
    if (!image.artifact_type.empty()) continue;
    const auto ref = image.annotations.find(std::string(k_ref_name));
    const std::string own = ref == image.annotations.end() ? image.digest : ref->second;
    names.push_back(own);
    if (wanted.empty() || own == wanted || image.digest == wanted) found.push_back(std::move(image));
  }
  if (found.size() != 1) return which_one(name, names, wanted);
  std::vector<std::string> given;
  if (const auto ref = found.front().annotations.find(std::string(k_ref_name)); ref != found.front().annotations.end())
    given.push_back(ref->second);
  return OpenedArchive{
      .source = std::make_unique<LayoutSource>(std::move(name), std::move(files), std::move(found.front())),
      .names = std::move(given)};
}

// ---- docker archives ----
// They have no manifest with digests: one is made up from the config, whose diff ids are the digests of plain layers.
class DockerSource final : public FileSource {
 public:
  DockerSource(std::string name, std::unique_ptr<ArchiveFiles> files) : FileSource(std::move(name), std::move(files)) {}

  Result<void> read(const std::string& config_path, const std::vector<std::string>& layer_paths) {
    m_config = TRY(m_files->read(config_path));
    const Json json = TRY(base::parse_json(m_config, "config of " + m_name));
    const auto diff_ids = base::strings_at(base::member(json, "rootfs"), "diff_ids");
    if (diff_ids.size() != layer_paths.size() || !std::ranges::all_of(diff_ids, is_digest))
      return base::fail(ErrorCode::corrupt, fmt::format("{} has other layers than its config names", m_name));
    std::vector<Descriptor> layers;
    for (std::size_t i = 0; i < diff_ids.size(); ++i) {
      m_paths.emplace(diff_ids[i], layer_paths[i]);
      layers.push_back({.media_type = std::string(layer_media_type(Compression::none)),
                        .digest = diff_ids[i],
                        .size = TRY(plain_size(layer_paths[i]))});
    }
    m_manifest = manifest_of(descriptor_of(k_config_type, m_config), layers, {});
    return {};
  }

  Result<ManifestText> manifest(std::string_view) override { return m_manifest; }
  Result<std::string> small_blob(const Descriptor& wanted) override { return checked(m_config, wanted.digest); }
  Result<std::unique_ptr<BlobReader>> open(const Descriptor& wanted) override {
    const auto path = m_paths.find(wanted.digest);
    if (path == m_paths.end())
      return base::fail(ErrorCode::not_found, fmt::format("{} has no {}", m_name, wanted.digest));
    return expanded(TRY(m_files->open(path->second)));
  }

 private:
  // 0, which is unknown, of a compressed one.
  Result<std::uint64_t> plain_size(const std::string& path) const {
    const auto place = TRY(m_files->find(path));
    std::array<unsigned char, 4> start{};
    const ssize_t count = ::pread(place.file.get(), start.data(), start.size(), static_cast<off_t>(place.offset));
    const bool packed =
        count == 4 && ((start[0] == 0x1f && start[1] == 0x8b) || (start[0] == 0x28 && start[1] == 0xb5));
    return packed ? 0 : place.size;
  }

  std::string m_config;
  ManifestText m_manifest;
  std::map<std::string, std::string> m_paths;
};

std::string with_tag(const std::string& name) {
  return name.find(':', name.rfind('/') == std::string::npos ? 0 : name.rfind('/')) == std::string::npos
             ? name + ":latest"
             : name;
}

Result<OpenedArchive> open_docker(std::string name, std::unique_ptr<ArchiveFiles> files, const std::string& wanted) {
  const std::string text = TRY(files->read("manifest.json"));
  const Json list = TRY(base::parse_json(text, name + "/manifest.json"));
  std::vector<std::string> names;
  const Json* found = nullptr;
  int fitting = 0;
  if (!list.is_array()) return base::fail(ErrorCode::corrupt, fmt::format("{}: its manifest.json is no list", name));
  for (const Json& image : list) {
    const auto tags = base::strings_at(image, "RepoTags");
    names.insert(names.end(), tags.begin(), tags.end());
    if (!wanted.empty() && std::ranges::find(tags, with_tag(wanted)) == tags.end()) continue;
    found = &image;
    ++fitting;
  }
  if (fitting != 1) return which_one(name, names, wanted);
  auto source = std::make_unique<DockerSource>(std::move(name), std::move(files));
  TRY(source->read(base::string_at(*found, "Config"), base::strings_at(*found, "Layers")));
  return OpenedArchive{.source = std::move(source), .names = base::strings_at(*found, "RepoTags")};
}

// ---- a root filesystem ----
class RootFilesystemSource final : public ImageSource {
 public:
  explicit RootFilesystemSource(fs::path file) : m_file(std::move(file)) {}

  Result<void> read(Reporter& reporter) {
    reporter.step("reading " + m_file.string());
    base::Sha256 blob, diff;
    Expander expander;
    Descriptor layer{.media_type = std::string(layer_media_type(Compression::none)), .digest = {}};
    auto reader = TRY(open(layer));
    std::vector<std::byte> buffer(256U << 10U), expanded(1U << 20U);
    for (;;) {
      const std::size_t count = TRY(reader->read(buffer));
      auto piece = std::span<const std::byte>(buffer).first(count);
      blob.update(piece);
      layer.size += count;
      for (;;) {
        const auto step = TRY_CONTEXT(expander.step(piece, expanded), "in " + m_file.string());
        piece = piece.subspan(step.consumed);
        diff.update(std::span<const std::byte>(expanded).first(step.produced));
        if (piece.empty() && step.produced == 0) break;
      }
      if (count == 0) break;
    }
    TRY_CONTEXT(expander.finish(), "in " + m_file.string());
    layer.digest = "sha256:" + base::to_hex(blob.finish());
    const std::string diff_id = "sha256:" + base::to_hex(diff.finish());
    m_config = base::to_compact_text(
        Json{{"architecture", own_architecture()},
             {"os", "linux"},
             {"config", {{"Env", {"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}}},
             {"rootfs", {{"type", "layers"}, {"diff_ids", {diff_id}}}},
             {"history", Json::array({{{"created_by", "startrail: imported root filesystem"}}})}});
    m_manifest = manifest_of(descriptor_of(k_config_type, m_config), {layer}, {});
    return {};
  }

  std::string name() const override { return m_file.string(); }
  Result<ManifestText> manifest(std::string_view) override { return m_manifest; }
  Result<std::string> small_blob(const Descriptor&) override { return m_config; }
  void expect(const std::vector<Descriptor>&) override {}
  Result<std::unique_ptr<BlobReader>> open(const Descriptor&) override {
    base::Fd file = TRY(base::open_file(m_file, O_RDONLY));
    struct stat status{};
    if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode))
      return base::fail(ErrorCode::invalid_input, fmt::format("{} is not a file", m_file.string()));
    return std::make_unique<FileReader>(std::move(file), 0, static_cast<std::uint64_t>(status.st_size));
  }
  void finished(const Descriptor&) override {}
  void spoiled(const Descriptor&) override {}

 private:
  fs::path m_file;
  std::string m_config;
  ManifestText m_manifest;
};

}  // namespace

Result<OpenedArchive> open_archive(const fs::path& path, const std::string& wanted, const fs::path& scratch) {
  auto files = TRY(open_archive_files(path, scratch));
  if (files->has("index.json") && files->has("oci-layout")) return open_layout(path.string(), std::move(files), wanted);
  if (files->has("manifest.json")) return open_docker(path.string(), std::move(files), wanted);
  Error neither = base::error(ErrorCode::invalid_input,
                              fmt::format("{} is neither an OCI layout nor a docker archive", path.string()))
                      .with_context("it has neither index.json nor manifest.json");
  std::error_code failed;
  if (!fs::is_directory(path, failed))
    neither.with_hint("a tar of a root filesystem becomes an image by: trail image import " + path.string());
  return base::fail(std::move(neither));
}

Result<std::unique_ptr<ImageSource>> open_root_filesystem(const fs::path& file, Reporter& reporter) {
  auto source = std::make_unique<RootFilesystemSource>(file);
  TRY(source->read(reporter));
  return source;
}

}  // namespace startrail::image
