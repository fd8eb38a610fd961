#include "image/oci/documents.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.hpp"

namespace startrail::image {
namespace {

constexpr std::size_t k_most_layers = 1000;  // overlay filesystems stop at 500
constexpr std::string_view k_docker_index = "application/vnd.docker.distribution.manifest.list.v2+json";

std::unexpected<Error> damaged(std::string_view name, std::string_view why) {
  return base::fail(ErrorCode::corrupt, fmt::format("{}: its manifest {}", name, why));
}

std::map<std::string, std::string> texts_at(const Json& object, std::string_view key) {
  std::map<std::string, std::string> texts;
  for (const auto& [name, value] : base::member(object, key).items())
    if (value.is_string()) texts.emplace(name, value.get<std::string>());
  return texts;
}

std::string platform_text(const Json& manifest) {
  const Json& platform = base::member(manifest, "platform");
  return base::string_at(platform, "os", "?") + "/" + base::string_at(platform, "architecture", "?");
}

// What a build tool says about images beside them, as an entry of the same list.
bool is_image_entry(const Json& manifest) {
  return base::string_at(base::member(manifest, "platform"), "os") != "unknown" &&
         base::string_at(manifest, "artifactType").empty();
}

base::Environment environment_of(const Json& config) {
  base::Environment environment;
  for (const std::string& line : base::strings_at(config, "Env")) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos || equals == 0) continue;
    const std::string name = line.substr(0, equals), value = line.substr(equals + 1);
    if (base::variable_fault(name, value).empty()) environment[name] = value;
  }
  return environment;
}

}  // namespace

std::string layers_digest(const std::vector<std::string>& diff_ids) {
  return "sha256:" + base::sha256_hex(fmt::format("{}", fmt::join(diff_ids, "\n")));
}

std::string_view own_architecture() {
#if defined(__x86_64__)
  return "amd64";
#elif defined(__aarch64__)
  return "arm64";
#else
  return "unknown";
#endif
}

bool is_digest(std::string_view text) {
  constexpr std::string_view k_digits = "0123456789abcdef";
  return text.size() == 71 && text.starts_with("sha256:") &&
         text.substr(7).find_first_not_of(k_digits) == std::string_view::npos;
}

Descriptor descriptor_of(std::string_view media_type, std::string_view text) {
  return {.media_type = std::string(media_type), .digest = "sha256:" + base::sha256_hex(text), .size = text.size()};
}

Json to_json(const Descriptor& descriptor) {
  Json json{{"mediaType", descriptor.media_type}, {"digest", descriptor.digest}, {"size", descriptor.size}};
  if (!descriptor.artifact_type.empty()) json["artifactType"] = descriptor.artifact_type;
  if (!descriptor.annotations.empty()) json["annotations"] = descriptor.annotations;
  return json;
}

Result<Descriptor> descriptor_from(const Json& json) {
  Descriptor descriptor{.media_type = base::string_at(json, "mediaType"), .digest = base::string_at(json, "digest")};
  if (!is_digest(descriptor.digest))
    return base::fail(ErrorCode::corrupt, fmt::format("`{}` is no SHA-256 digest", descriptor.digest));
  const std::int64_t size = base::integer_at(json, "size", -1);
  if (size < 0) return base::fail(ErrorCode::corrupt, fmt::format("{} has no size", descriptor.digest));
  descriptor.size = static_cast<std::uint64_t>(size);
  descriptor.annotations = texts_at(json, "annotations");
  descriptor.artifact_type = base::string_at(json, "artifactType");
  return descriptor;
}

bool is_index(const ManifestText& manifest) {
  if (manifest.media_type == k_index_type || manifest.media_type == k_docker_index) return true;
  if (manifest.media_type == k_manifest_type) return false;
  const auto json = base::parse_json(manifest.text, "manifest");
  return json && base::member(*json, "manifests").is_array();
}

Result<Descriptor> own_platform(const ManifestText& index, std::string_view name) {
  const Json json = TRY(base::parse_json(index.text, name));
  std::vector<std::string> others;
  for (const Json& manifest : base::member(json, "manifests")) {
    if (!is_image_entry(manifest)) continue;
    const std::string platform = platform_text(manifest);
    if (platform == fmt::format("linux/{}", own_architecture())) return descriptor_from(manifest);
    others.push_back(platform);
  }
  if (others.size() == 1 && others.front() == "?/?")
    for (const Json& manifest : base::member(json, "manifests"))
      if (is_image_entry(manifest)) return descriptor_from(manifest);
  return base::fail(ErrorCode::unsupported,
                    fmt::format("{} has no image for linux/{}; it has {}", name, own_architecture(),
                                others.empty() ? "none at all" : fmt::format("{}", fmt::join(others, ", "))));
}

Result<OciManifest> parse_image_manifest(const ManifestText& manifest, std::string_view name) {
  const Json json = TRY(base::parse_json(manifest.text, name));
  if (!base::member(json, "config").is_object() || !base::member(json, "layers").is_array())
    return damaged(name, "has no config or no layers");
  OciManifest result{.config =
                         TRY_CONTEXT(descriptor_from(json["config"]), fmt::format("in the manifest of {}", name))};
  if (const std::string& type = result.config.media_type;
      type != k_config_type && type != "application/vnd.docker.container.image.v1+json")
    return base::fail(ErrorCode::unsupported, fmt::format("{} is not an image but `{}`", name, type));
  for (const Json& layer : json["layers"]) {
    Descriptor descriptor = TRY_CONTEXT(descriptor_from(layer), fmt::format("in the manifest of {}", name));
    if (base::member(layer, "urls").is_array() && !layer["urls"].empty())
      return base::fail(ErrorCode::unsupported, fmt::format("{} has a layer that is only to be had elsewhere", name));
    if (descriptor.media_type.find("encrypted") != std::string::npos)
      return base::fail(ErrorCode::unsupported, fmt::format("{} has a layer that is encrypted", name));
    result.layers.push_back(std::move(descriptor));
  }
  if (result.layers.empty()) return damaged(name, "has no layers");
  if (result.layers.size() > k_most_layers) return damaged(name, "has more layers than any image");
  return result;
}

Result<OciConfig> parse_config(std::string_view text, std::string_view name) {
  OciConfig config{
      .architecture = {}, .os = {}, .whole = TRY(base::parse_json(text, fmt::format("config of {}", name)))};
  const Json& inner = base::member(config.whole, "config");
  config.architecture = base::string_at(config.whole, "architecture");
  config.os = base::string_at(config.whole, "os");
  config.diff_ids = base::strings_at(base::member(config.whole, "rootfs"), "diff_ids");
  config.environment = environment_of(inner);
  config.working_directory = base::string_at(inner, "WorkingDir");
  config.labels = texts_at(inner, "Labels");
  if (!std::ranges::all_of(config.diff_ids, is_digest)) return damaged(name, "has a config whose diff ids are none");
  if (config.os != "linux" || config.architecture != own_architecture())
    return base::fail(ErrorCode::unsupported, fmt::format("{} is for {}/{}; this machine is linux/{}", name, config.os,
                                                          config.architecture, own_architecture()));
  return config;
}

ManifestText manifest_of(const Descriptor& config, const std::vector<Descriptor>& layers,
                         const std::map<std::string, std::string>& annotations) {
  Json list = Json::array();
  for (const Descriptor& layer : layers) list.push_back(to_json(layer));
  Json json{{"schemaVersion", 2}, {"mediaType", k_manifest_type}, {"config", to_json(config)}, {"layers", list}};
  if (!annotations.empty()) json["annotations"] = annotations;
  ManifestText manifest{.media_type = std::string(k_manifest_type), .digest = {}, .text = base::to_compact_text(json)};
  manifest.digest = "sha256:" + base::sha256_hex(manifest.text);
  return manifest;
}

}  // namespace startrail::image
