#include "image/image_folder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "image/oci/pulled_image.hpp"
#include "image/system_store.hpp"

namespace startrail::image {
namespace {

constexpr std::string_view k_site = "{site}";

bool is_earlier(const timespec& a, const timespec& b) {
  return std::tie(a.tv_sec, a.tv_nsec) < std::tie(b.tv_sec, b.tv_nsec);
}

// Nobody but its owner may touch a file, but everybody's reading sets its time of access: once a day at most, which is
// enough for telling the least recently used (mount(2), MS_RELATIME).
void note_use(const fs::path& file) {
  const base::Fd fd(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  char byte = 0;
  if (fd.valid()) [[maybe_unused]]
    const auto count = ::read(fd.get(), &byte, 1);
}

// What a process inside sees before anybody adds to it: the environment first on PATH, certificates, UTF-8.
base::Environment image_environment() {
  return {{"PATH", "/opt/env/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
          {"VIRTUAL_ENV", "/opt/env"},
          {"LANG", "C.UTF-8"},
          {"SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt"}};
}

// The image's own, and what its libraries need to be found.
base::Environment environment_of(const Manifest& manifest) {
  base::Environment environment = image_environment();
  const std::string site = fmt::format("/opt/env/lib/python{}/site-packages", manifest.python);
  for (std::string text : manifest.environment) {
    for (auto at = text.find(k_site); at != std::string::npos; at = text.find(k_site, at + site.size()))
      text.replace(at, k_site.size(), site);
    if (const auto equals = text.find('='); equals != std::string::npos)
      environment[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return environment;
}

Json to_json(const Manifest& manifest) {
  if (manifest.is_foreign())
    return {{"schema", 1},
            {"layout", k_layout},
            {"foreign", {{"manifest", manifest.oci_manifest}, {"layers", manifest.diff_ids}}}};
  Json wheels = Json::array();
  for (const ManifestWheel& wheel : manifest.wheels) {
    Json line{{"name", wheel.name}, {"sha256", wheel.sha256}};
    if (!wheel.direct_url.empty()) line["direct_url"] = wheel.direct_url;
    wheels.push_back(std::move(line));
  }
  Json json{{"schema", 1}, {"layout", k_layout}};
  if (!manifest.parent.empty()) json["parent"] = manifest.parent;
  json["lock"] = manifest.lock;
  json["python"] = manifest.python;
  json["base"] = {{"recipe", manifest.base_recipe}, {"digest", manifest.base_digest}};
  json["wheels"] = std::move(wheels);
  if (!manifest.environment.empty()) json["environment"] = manifest.environment;
  return json;
}

// Its one tree is all of the root filesystem.
Result<Image> foreign_image(const fs::path& folder) {
  Image image{.id = "sha256:" + folder.filename().string(), .layers = {folder / "tree"}, .python = {}};
  const Json details = TRY(base::read_json_file(folder / "details.json"));
  for (const auto& [name, value] : base::member(details, "environment").items())
    if (value.is_string()) image.environment.emplace(name, value.get<std::string>());
  return image;
}

fs::path used_file(const Store& store, const std::string& id) {
  return store.image(id) / "used";
}

// The base that the image was shared with; else wherever it is.
fs::path base_root(const Store& store, const std::optional<fs::path>& shared, const Manifest& manifest) {
  const fs::path folder =
      shared ? shared->parent_path().parent_path() / "bases" / manifest.base_digest : store.base(manifest.base_digest);
  if (folder.parent_path().parent_path() != store.root()) hold_for_life(folder);
  return folder / "root";
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
  return base::to_pretty_text(to_json(manifest));
}
std::string manifest_id(const Manifest& manifest) {
  return "sha256:" + base::sha256_hex(manifest_text(manifest));
}

Result<Manifest> parse_manifest(const std::string& text) {
  const Json json = TRY(base::parse_json(text, "manifest.json"));
  const Json& from = base::member(json, "base");
  const Json& foreign = base::member(json, "foreign");
  Manifest manifest{.lock = base::string_at(json, "lock"),
                    .python = base::string_at(json, "python"),
                    .base_recipe = base::string_at(from, "recipe"),
                    .base_digest = base::string_at(from, "digest"),
                    .wheels = {},
                    .environment = base::strings_at(json, "environment"),
                    .parent = base::string_at(json, "parent"),
                    .oci_manifest = base::string_at(foreign, "manifest"),
                    .diff_ids = base::strings_at(foreign, "layers")};
  for (const Json& wheel : base::member(json, "wheels"))
    manifest.wheels.push_back({.name = base::string_at(wheel, "name"),
                               .sha256 = base::string_at(wheel, "sha256"),
                               .direct_url = base::string_at(wheel, "direct_url")});
  if (!manifest.is_foreign() && (manifest.python.empty() || manifest.base_digest.empty()))
    return base::fail(ErrorCode::corrupt, "lacks a field");
  return manifest;
}

Result<Manifest> read_manifest(const Store& store, const std::string& id) {
  const fs::path folder = store.image(id);
  const std::string text = TRY(base::read_file(folder / "manifest.json"));
  const auto damaged = [&](std::string_view why) {
    return base::fail(base::error(ErrorCode::corrupt, fmt::format("the manifest of image {} {}",
                                                                  folder.filename().string().substr(0, 12), why))
                          .with_context("in " + (folder / "manifest.json").string())
                          .with_hint("remove the image and make it again: trail image prune --all"));
  };
  if (base::sha256_hex(text) != folder.filename()) return damaged("does not match its name");
  auto manifest = parse_manifest(text);
  if (!manifest) return damaged(manifest.error().message);
  return manifest;
}

Result<Image> image_from_manifest(const Store& store, const std::string& id, const Manifest& manifest) {
  const fs::path folder = store.image(id);
  if (manifest.is_foreign()) return foreign_image(folder);
  // One that came from elsewhere has what its parent brings in its own tree.
  if (!manifest.parent.empty() && !is_pulled(store, id)) {
    const Manifest parent = TRY(read_manifest(store, manifest.parent));
    Image image = TRY(image_from_manifest(store, manifest.parent, parent));
    image.id = "sha256:" + folder.filename().string();
    image.layers.insert(image.layers.begin(), folder / "tree");
    return image;
  }
  Image image{.id = "sha256:" + folder.filename().string(),
              .layers = {folder / "tree"},
              .arrival = Arrival::complete,
              .python = manifest.python,
              .environment = environment_of(manifest)};
  const auto shared = shared_image(store, id);
  if (shared) {
    TRY(check_standing(store, image.id));
    note_use(*shared / "used");
    image.layers.push_back(*shared / "tree");
  }
  std::error_code ignored;
  for (const fs::path& bytecode : {folder / "bytecode", shared.value_or(folder) / "bytecode"}) {
    if (image.has_bytecode || !fs::exists(bytecode, ignored)) continue;
    image.layers.push_back(bytecode);
    image.has_bytecode = true;
  }
  const fs::path base = base_root(store, shared, manifest);
  if (!fs::is_directory(base, ignored))
    return base::fail(
        base::error(ErrorCode::not_found, fmt::format("the base system of image {} is gone", image.id.substr(0, 19)))
            .with_context("looked for " + base.string())
            .with_hint("make the image again: trail image build"));
  image.layers.push_back(base);
  return image;
}

fs::path image_tree(const Store& store, const std::string& id) {
  return shared_image(store, id).value_or(store.image(id)) / "tree";
}

void touch_image(const Store& store, const std::string& id) {
  const base::Fd fd(::open(used_file(store, id).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
  struct stat status{};
  // A byte to read: other users of this store note their use by it.
  if (fd.valid() && ::fstat(fd.get(), &status) == 0 && status.st_size == 0) [[maybe_unused]]
    const auto written = ::pwrite(fd.get(), "\n", 1, 0);
  if (fd.valid()) ::futimens(fd.get(), nullptr);
}

base::Time last_used(const Store& store, const std::string& id) {
  struct stat status{};
  timespec last{};
  if (::stat(used_file(store, id).c_str(), &status) == 0)
    last = std::max(status.st_mtim, status.st_atim, is_earlier);
  else if (::stat(store.image(id).c_str(), &status) == 0)
    last = status.st_mtim;
  else
    return {};
  return base::Time(std::chrono::duration_cast<base::Time::duration>(std::chrono::seconds(last.tv_sec) +
                                                                     std::chrono::nanoseconds(last.tv_nsec)));
}

std::vector<std::string> image_ids(const Store& store) {
  std::vector<std::string> ids;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(store.folder("images"), ignored))
    if (entry.path().filename().string().size() == 64) ids.push_back(entry.path().filename().string());
  std::ranges::sort(ids);
  return ids;
}

}  // namespace startrail::image
