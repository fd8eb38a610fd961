#include "image/registry/registry_target.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "image/oci/documents.hpp"
#include "image/registry/known_blobs.hpp"
#include "image/registry/upload.hpp"

namespace startrail::image {
std::string fallback_tag(const std::string& digest) {
  std::string tag = digest;
  std::ranges::replace(tag, ':', '-');
  return tag;
}

Result<std::unique_ptr<RegistryTarget>> RegistryTarget::open(const Reference& reference, const Store& store,
                                                             const RegistryOptions& options) {
  if (!reference.digest.empty())
    return base::fail(base::error(ErrorCode::usage,
                                  fmt::format("`{}` names a digest, and an image is pushed to a tag", reference.text()))
                          .with_hint(fmt::format("for example: {}:latest", reference.place())));
  return std::unique_ptr<RegistryTarget>(
      new RegistryTarget(TRY(Session::open(reference, Access::push, options)), store));
}

RegistryTarget::RegistryTarget(std::unique_ptr<Session> session, Store store)
    : m_session(std::move(session)), m_store(std::move(store)) {}

RegistryTarget::~RegistryTarget() {
  std::vector<std::string> digests;
  for (const auto& [digest, way] : m_ways) digests.push_back(digest);
  // A hint that can't be kept is no failure of the push.
  (void)remember_blobs(m_store, m_session->reference(), digests);
}

std::map<std::string, RegistryTarget::Way> RegistryTarget::ways() const {
  const std::scoped_lock lock(m_mutex);
  return m_ways;
}

ManifestText RegistryTarget::manifest() const {
  const std::scoped_lock lock(m_mutex);
  return m_manifest;
}

void RegistryTarget::note(const Descriptor& blob, Way way) {
  const std::scoped_lock lock(m_mutex);
  m_ways.try_emplace(blob.digest, way);
}

Result<bool> RegistryTarget::has(const Descriptor& blob) {
  const auto response = TRY(m_session->send({.method = "HEAD", .path = "blobs/" + blob.digest}));
  if (response.status != 200 && response.status != 404)
    return base::fail(m_session->refusal(response, fmt::format("when asked for the blob {}", blob.digest)));
  if (response.status == 404) return mount(blob);
  note(blob, Way::was_there);
  return true;
}

// Whatever is in the way of mounting, the blob can still be sent.
Result<bool> RegistryTarget::mount(const Descriptor& blob) {
  const auto from = repository_with(m_store, m_session->reference(), blob.digest);
  if (!from) return false;
  auto response = m_session->send({.method = "POST",
                                   .path = fmt::format("blobs/uploads/?mount={}&from={}", blob.digest, *from),
                                   .also_pull = from});
  if (!response) {
    if (response.error().code == ErrorCode::permission) return false;
    return base::fail(std::move(response).error());
  }
  if (response->status == 201) {
    note(blob, Way::mounted);
    return true;
  }
  if (const auto location = response->headers.find("location");
      response->status == 202 && location != response->headers.end()) {
    const std::scoped_lock lock(m_mutex);
    m_begun[blob.digest] = m_session->resolve(location->second);
  }
  return false;
}

Result<void> RegistryTarget::upload(const Descriptor& blob, std::optional<fs::path> file, std::string_view text) {
  std::string location;
  {
    const std::scoped_lock lock(m_mutex);
    if (const auto begun = m_begun.find(blob.digest); begun != m_begun.end()) {
      location = begun->second;
      m_begun.erase(begun);
    }
  }
  TRY(upload_blob(*m_session, blob, {.file = std::move(file), .text = text},
                  {.location = location, .on_bytes = [this](std::uint64_t count) { m_sent += count; }}));
  note(blob, Way::uploaded);
  return {};
}

Result<void> RegistryTarget::put_file(const Descriptor& blob, const fs::path& file) {
  return upload(blob, file, "");
}

Result<void> RegistryTarget::put_text(const Descriptor& blob, std::string_view text) {
  return upload(blob, std::nullopt, text);
}

Result<base::HttpResponse> RegistryTarget::put(const ManifestText& manifest, const std::string& name) {
  auto response = TRY(m_session->send({.method = "PUT",
                                       .path = "manifests/" + name,
                                       .headers = {"Content-Type: " + manifest.media_type},
                                       .body = manifest.text}));
  if (response.status != 201 && response.status != 200 && response.status != 202)
    return base::fail(m_session->refusal(response, fmt::format("when the manifest {} was pushed", name)));
  const auto told = response.headers.find("docker-content-digest");
  if (told != response.headers.end() && is_digest(told->second) && told->second != manifest.digest)
    return base::fail(ErrorCode::hash_mismatch,
                      fmt::format("{} stored the manifest {} of {} as {}", m_session->reference().host, manifest.digest,
                                  m_session->reference().repository, told->second));
  return response;
}

Result<void> RegistryTarget::put_manifest(const ManifestText& manifest, Naming naming) {
  TRY(put(manifest, naming == Naming::tagged ? m_session->reference().tag : manifest.digest));
  if (naming == Naming::by_digest) return {};
  const std::scoped_lock lock(m_mutex);
  m_manifest = manifest;
  return {};
}

// OCI distribution specification 1.1, "Pushing manifests with subject": a registry that keeps referrers says so by
// OCI-Subject; for any other the client keeps an index of them under a tag.
Result<void> RegistryTarget::put_referrer(const ManifestText& manifest, const Descriptor& subject,
                                          const Descriptor& own) {
  const auto response = TRY(put(manifest, manifest.digest));
  if (response.headers.contains("oci-subject")) return {};
  return add_to_fallback(subject, own);
}

Result<void> RegistryTarget::add_to_fallback(const Descriptor& subject, const Descriptor& own) {
  const std::scoped_lock lock(m_referrers);
  const std::string tag = fallback_tag(subject.digest);
  const auto present =
      TRY(m_session->send({.path = "manifests/" + tag, .headers = {fmt::format("Accept: {}", k_index_type)}}));
  Json index{{"schemaVersion", 2}, {"mediaType", k_index_type}, {"manifests", Json::array()}};
  if (present.status == 200) {
    auto read = base::parse_json(present.body, tag);
    if (!read || !base::member(*read, "manifests").is_array())
      return base::fail(ErrorCode::conflict, fmt::format("the tag {} of {} is taken by something that is no index", tag,
                                                         m_session->reference().place()));
    index = std::move(*read);
  } else if (present.status != 404) {
    return base::fail(m_session->refusal(present, "when asked for its referrers"));
  }
  for (const Json& entry : index["manifests"])
    if (base::string_at(entry, "digest") == own.digest) return {};
  index["manifests"].push_back(to_json(own));
  const std::string text = base::to_compact_text(index);
  TRY(put({.media_type = std::string(k_index_type), .digest = descriptor_of(k_index_type, text).digest, .text = text},
          tag));
  return {};
}

}  // namespace startrail::image
