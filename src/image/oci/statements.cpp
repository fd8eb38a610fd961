#include "image/oci/statements.hpp"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "base/hash.hpp"
#include "image/beneath.hpp"
#include "image/oci/documents.hpp"
#include "image/wheel_tree.hpp"

namespace startrail::image {
namespace {

struct DebianPackage {
  std::string version, architecture;
};

// Of the base's dpkg status. Not through any link of the tree: one may have come from elsewhere.
std::map<std::string, DebianPackage> debian_packages(const Store& store, const std::string& base_digest) {
  std::map<std::string, DebianPackage> packages;
  const auto root = Beneath::open(store.base(base_digest) / "root");
  if (!root) return packages;
  const std::string status = root->read("var/lib/dpkg/status").value_or("");
  std::string name;
  for (std::size_t start = 0; start < status.size();) {
    const std::size_t end = std::min(status.find('\n', start), status.size());
    const std::string_view line = std::string_view(status).substr(start, end - start);
    start = end + 1;
    if (line.starts_with("Package: ")) name = line.substr(9);
    if (line.starts_with("Version: ")) packages[name].version = line.substr(9);
    if (line.starts_with("Architecture: ")) packages[name].architecture = line.substr(14);
  }
  return packages;
}

// Percent-encoding of a package URL's version (purl specification).
std::string encoded(std::string_view text) {
  std::string result;
  for (const char letter : text) {
    const bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                       (letter >= '0' && letter <= '9') ||
                       std::string_view("-._~:").find(letter) != std::string_view::npos;
    result += plain ? std::string(1, letter) : fmt::format("%{:02X}", static_cast<unsigned char>(letter));
  }
  return result;
}

Json wheel_component(const Json& package) {
  const std::string name = base::string_at(package, "name"), version = base::string_at(package, "version");
  const std::string purl = fmt::format("pkg:pypi/{}@{}", normalized_name(name), encoded(version));
  return {{"type", "library"},
          {"bom-ref", purl},
          {"name", name},
          {"version", version},
          {"purl", purl},
          {"hashes", Json::array({{{"alg", "SHA-256"}, {"content", base::string_at(package, "sha256")}}})}};
}

Json debian_component(const std::string& name, const DebianPackage& package, const std::string& suite) {
  const std::string purl = fmt::format("pkg:deb/debian/{}@{}?arch={}&distro={}", encoded(name),
                                       encoded(package.version), package.architecture, suite);
  return {{"type", "library"}, {"bom-ref", purl}, {"name", name}, {"version", package.version}, {"purl", purl}};
}

Json dependency(const std::string& uri, const std::string& sha256) {
  return {{"uri", uri}, {"digest", {{"sha256", sha256}}}};
}

}  // namespace

Json bill_of_materials(const Store& store, const std::string& id, const Manifest& manifest, const Json& details) {
  Json components = Json::array();
  for (const Json& package : base::member(details, "packages")) components.push_back(wheel_component(package));
  if (!manifest.base_digest.empty())
    for (const auto& [name, package] : debian_packages(store, manifest.base_digest))
      components.push_back(debian_component(name, package, base::string_at(details, "suite")));
  return {
      {"bomFormat", "CycloneDX"},
      {"specVersion", "1.5"},
      {"version", 1},
      {"metadata", {{"component", {{"type", "container"}, {"bom-ref", id}, {"name", "startrail"}, {"version", id}}}}},
      {"components", std::move(components)}};
}

Json provenance(const std::string& id, const Manifest& manifest, const Json& details, const std::string& name,
                const Descriptor& subject) {
  Json sources = Json::array();
  if (!manifest.base_digest.empty())
    sources.push_back(dependency("startrail:base/" + manifest.base_recipe, manifest.base_digest));
  std::map<std::string, std::string> versions;
  for (const Json& package : base::member(details, "packages"))
    versions.emplace(base::string_at(package, "sha256"), base::string_at(package, "version"));
  for (const ManifestWheel& wheel : manifest.wheels)
    sources.push_back(dependency(
        fmt::format("pkg:pypi/{}@{}", normalized_name(wheel.name), encoded(versions[wheel.sha256])), wheel.sha256));
  Json parameters{{"image", id}, {"lock", manifest.lock}, {"python", manifest.python}};
  if (manifest.is_foreign()) parameters = {{"image", id}, {"imported", manifest.oci_manifest}};
  return {{"_type", "https://in-toto.io/Statement/v1"},
          {"subject", Json::array({{{"name", name}, {"digest", {{"sha256", subject.digest.substr(7)}}}}})},
          {"predicateType", "https://slsa.dev/provenance/v1"},
          {"predicate",
           {{"buildDefinition",
             {{"buildType", "startrail:image/1"},
              {"externalParameters", std::move(parameters)},
              {"resolvedDependencies", std::move(sources)}}},
            {"runDetails", {{"builder", {{"id", "startrail:trail"}}}}}}}};
}

Descriptor empty_blob() {
  return descriptor_of("application/vnd.oci.empty.v1+json", k_empty_text);
}

Statement statement_about(const Descriptor& subject, std::string_view type, const Json& content) {
  Statement statement{.text = base::to_compact_text(content)};
  statement.blob = descriptor_of(type, statement.text);
  const Json manifest{
      {"schemaVersion", 2},
      {"mediaType", k_manifest_type},
      {"artifactType", type},
      {"config", to_json(empty_blob())},
      {"layers", Json::array({to_json(statement.blob)})},
      {"subject", {{"mediaType", subject.media_type}, {"digest", subject.digest}, {"size", subject.size}}}};
  const std::string text = base::to_compact_text(manifest);
  statement.own = descriptor_of(k_manifest_type, text);
  statement.own.artifact_type = type;
  statement.manifest = {.media_type = std::string(k_manifest_type), .digest = statement.own.digest, .text = text};
  return statement;
}

}  // namespace startrail::image
