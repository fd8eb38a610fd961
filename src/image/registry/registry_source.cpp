#include "image/registry/registry_source.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/hash.hpp"
#include "base/json.hpp"
#include "image/oci/documents.hpp"
#include "image/registry/known_blobs.hpp"

namespace startrail::image {
namespace {

constexpr std::uint64_t k_small = 32ULL << 20U;
// Of one blob, so many processes may fetch their own copy at once; each has a part that can be taken up again.
constexpr int k_places = 16;
// Credentials that end again and again without a byte between are no credentials.
constexpr int k_renewals = 3;

constexpr std::string_view k_docker_manifest_type = "application/vnd.docker.distribution.manifest.v2+json";
constexpr std::string_view k_docker_index_type = "application/vnd.docker.distribution.manifest.list.v2+json";

bool is_known(std::string_view type) {
  return type == k_manifest_type || type == k_index_type || type == k_docker_manifest_type ||
         type == k_docker_index_type;
}

std::string accepted_types() {
  return fmt::format("Accept: {}, {}, {}, {}", k_manifest_type, k_index_type, k_docker_manifest_type,
                     k_docker_index_type);
}

std::string digest_of(std::string_view text) {
  return "sha256:" + base::sha256_hex(text);
}

// Without parameters ("; charset=utf-8"); a server that says nothing of use leaves it to the manifest itself.
std::string media_type_of(const base::HttpResponse& response) {
  const auto header = response.headers.find("content-type");
  std::string type = header == response.headers.end() ? "" : header->second.substr(0, header->second.find(';'));
  while (type.ends_with(' ')) type.pop_back();
  if (is_known(type)) return type;
  const auto json = base::parse_json(response.body, "manifest");
  if (!json) return type;
  if (const std::string own = base::string_at(*json, "mediaType"); !own.empty()) return own;
  return type;
}

}  // namespace

struct RegistrySource::Arriving {
  Descriptor blob;
  fs::path part;
  std::optional<base::FileLock> lock;  // of the part
  std::size_t id = 0;
  std::shared_ptr<const base::ArrivingFile> file;
  std::optional<Result<void>> outcome;
  bool is_wanted = false;  // somebody reads it
  int renewals = 0;
  std::uint64_t renewed_at = 0;  // bytes that were there then

  [[nodiscard]] std::uint64_t fetched() const { return file ? file->received() - file->resumed() : 0; }
};

class RegistrySource::Reader final : public BlobReader {
 public:
  Reader(RegistrySource& source, std::shared_ptr<Arriving> arriving)
      : m_source(source), m_arriving(std::move(arriving)) {}

  Result<std::size_t> read(std::span<std::byte> buffer) override {
    if (m_position == m_arriving->blob.size || buffer.empty()) return 0;
    const auto [file, length] = TRY(m_source.wait(*m_arriving, m_position, buffer.size()));
    TRY(file->read(m_position, buffer.first(length)));
    m_position += length;
    return length;
  }

 private:
  RegistrySource& m_source;
  std::shared_ptr<Arriving> m_arriving;
  std::uint64_t m_position = 0;
};

Result<std::unique_ptr<RegistrySource>> RegistrySource::open(const Reference& reference, const Store& store,
                                                             const RegistryOptions& options,
                                                             const base::TransferOptions& transfers) {
  return std::unique_ptr<RegistrySource>(
      new RegistrySource(TRY(Session::open(reference, Access::pull, options)), store, transfers));
}

RegistrySource::RegistrySource(std::unique_ptr<Session> session, Store store, const base::TransferOptions& transfers)
    : m_session(std::move(session)), m_store(std::move(store)), m_transfers(transfers, *this) {}

RegistrySource::~RegistrySource() {
  // A hint that can't be kept is no failure of the pull.
  (void)remember_blobs(m_store, m_session->reference(), m_received);
}

Error RegistrySource::about(Error reason) const {
  return std::move(reason).with_context("while pulling " + name());
}

Result<ManifestText> RegistrySource::fetch_manifest(const std::string& wanted) {
  std::string sent;
  // What was damaged on the way is right the second time.
  for (int attempt = 0; attempt < 2; ++attempt) {
    auto response = TRY(m_session->send({.path = "manifests/" + wanted, .headers = {accepted_types()}}));
    if (response.status == 404)
      return base::fail(
          about(base::error(ErrorCode::not_found,
                            fmt::format("{} has no image {}{}{}", m_session->reference().host,
                                        m_session->reference().repository, is_digest(wanted) ? "@" : ":", wanted))
                    .with_hint("check the name and the tag; a private image may need a login")));
    if (response.status != 200) return base::fail(about(m_session->refusal(response, "when asked for its manifest")));
    sent = digest_of(response.body);
    const std::string promised = is_digest(wanted) ? wanted : response.headers["docker-content-digest"];
    if (promised == sent || !is_digest(promised))
      return ManifestText{.media_type = media_type_of(response), .digest = sent, .text = std::move(response.body)};
  }
  return base::fail(about(base::error(
      ErrorCode::hash_mismatch, fmt::format("{} sent a manifest of {} that has another digest than promised ({})",
                                            m_session->reference().host, m_session->reference().repository, sent))));
}

Result<ManifestText> RegistrySource::manifest(std::string_view digest) {
  if (!digest.empty()) return fetch_manifest(std::string(digest));
  {
    const std::scoped_lock lock(m_mutex);
    if (m_own) return *m_own;
  }
  // A tag may move meanwhile: what was read first stays the image.
  ManifestText found = TRY(own_manifest());
  const std::scoped_lock lock(m_mutex);
  if (!m_own) m_own = std::move(found);
  return *m_own;
}

Result<ManifestText> RegistrySource::own_manifest() {
  ManifestText found = TRY(fetch_manifest(m_session->reference().wanted()));
  if (is_index(found)) return fetch_manifest(TRY(own_platform(found, name())).digest);
  if (!is_known(found.media_type))
    return base::fail(base::error(ErrorCode::unsupported,
                                  fmt::format("{} is of a type that can't be read: `{}`", name(), found.media_type))
                          .with_hint("push it once more with a present version of docker, podman or buildah"));
  return found;
}

Result<std::string> RegistrySource::fetch_blob(const Descriptor& blob) {
  auto response = TRY(m_session->send({.path = "blobs/" + blob.digest, .limit = Bytes{k_small}}));
  if (response.status != 200)
    return base::fail(about(m_session->refusal(response, fmt::format("when asked for the blob {}", blob.digest))));
  return std::move(response.body);
}

Result<std::string> RegistrySource::small_blob(const Descriptor& blob) {
  if (blob.size > k_small)
    return base::fail(
        about(base::error(ErrorCode::invalid_input, fmt::format("the blob {} of {} is said to have {}", blob.digest,
                                                                name(), to_text(Bytes{blob.size})))));
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::string text = TRY(fetch_blob(blob));
    if (text.size() == blob.size && digest_of(text) == blob.digest) return text;
  }
  return base::fail(about(base::error(
      ErrorCode::hash_mismatch, fmt::format("{} sent other bytes than the blob {} of {}", m_session->reference().host,
                                            blob.digest, m_session->reference().repository))));
}

// Two processes must not write one part. What a killed one left is taken up by whoever has the place next.
Result<std::shared_ptr<RegistrySource::Arriving>> RegistrySource::arriving(const Descriptor& blob, int places) {
  if (const auto found = m_blobs.find(blob.digest); found != m_blobs.end()) return found->second;
  if (!is_digest(blob.digest))
    return base::fail(about(base::error(ErrorCode::unsupported,
                                        fmt::format("`{}` is a digest of a kind that isn't known here", blob.digest))));
  auto made = std::make_shared<Arriving>(Arriving{.blob = blob});
  const std::string digits = blob.digest.substr(7);
  for (int place = 0; place < places && !made->lock; ++place) {
    const std::string key = place == 0 ? digits : fmt::format("{}.{}", digits, place);
    made->lock = TRY(m_store.try_lock("blob-" + key));
    made->part = m_store.part(key);
  }
  if (!made->lock)
    return base::fail(ErrorCode::conflict, fmt::format("{} processes fetch {} just now", places, blob.digest));
  if (blob.size > 0) order(made);
  m_blobs[blob.digest] = made;
  return made;
}

void RegistrySource::order(const std::shared_ptr<Arriving>& arriving) {
  const Reference& reference = m_session->reference();
  const Descriptor& blob = arriving->blob;
  arriving->outcome.reset();
  arriving->file.reset();
  arriving->id =
      m_transfers.add({.name = fmt::format("the blob {} of {}", blob.digest.substr(0, 19), reference.repository),
                       .address = m_session->address("blobs/" + blob.digest),
                       .part = arriving->part,
                       .size = blob.size,
                       .headers = [this] { return m_session->headers(); }});
  m_by_id[arriving->id] = arriving;
  // Whoever reads it goes first: what is large but unread may fill the window.
  if (arriving->is_wanted) m_transfers.want(arriving->id, 0, blob.size);
}

void RegistrySource::expect(const std::vector<Descriptor>& blobs) {
  const std::scoped_lock lock(m_mutex);
  // What another process fetches just now may never be asked for here: `open` decides. It also tells of failures.
  for (const Descriptor& blob : blobs) (void)arriving(blob, 1);
}

Result<std::unique_ptr<BlobReader>> RegistrySource::open(const Descriptor& blob) {
  const std::scoped_lock lock(m_mutex);
  auto found = TRY(arriving(blob, k_places));
  if (!found->is_wanted && blob.size > 0) m_transfers.want(found->id, 0, blob.size);
  found->is_wanted = true;
  return std::make_unique<Reader>(*this, std::move(found));
}

Result<RegistrySource::There> RegistrySource::wait(Arriving& arriving, std::uint64_t offset, std::uint64_t at_most) {
  std::unique_lock lock(m_mutex);
  while (true) {
    if (arriving.file)
      if (const auto length = arriving.file->available(offset, at_most); length > 0)
        return There{.file = arriving.file, .length = length};
    if (!arriving.outcome) {
      m_changed.wait(lock);
      continue;
    }
    if (arriving.outcome->has_value())
      return base::fail(ErrorCode::internal, fmt::format("{} is there and isn't", arriving.blob.digest));
    if (arriving.outcome->error().code != ErrorCode::permission) return base::fail(about(arriving.outcome->error()));
    lock.unlock();
    TRY(renew(arriving));
    lock.lock();
  }
}

// A token that ended on the way: the session gets a new one, or says what is wrong.
Result<void> RegistrySource::renew(Arriving& arriving) {
  auto asked = m_session->send({.method = "HEAD", .path = "blobs/" + arriving.blob.digest});
  if (!asked) return base::fail(about(std::move(asked).error()));
  const std::scoped_lock lock(m_mutex);
  if (!arriving.outcome || arriving.outcome->has_value()) return {};  // another reader was faster
  const std::uint64_t there = arriving.file ? arriving.file->received() : 0;
  if (there > arriving.renewed_at) arriving.renewals = 0;
  arriving.renewed_at = there;
  if (++arriving.renewals > k_renewals) return base::fail(about(arriving.outcome->error()));
  m_fetched += arriving.fetched();
  const auto found = m_by_id.find(arriving.id);
  if (found == m_by_id.end()) return base::fail(about(arriving.outcome->error()));  // dropped meanwhile
  const std::shared_ptr<Arriving> shared = found->second;
  m_by_id.erase(found);
  order(shared);
  return {};
}

void RegistrySource::drop(const Descriptor& blob) {
  const auto found = m_blobs.find(blob.digest);
  if (found == m_blobs.end()) return;
  const std::shared_ptr<Arriving> arriving = found->second;
  m_fetched += arriving->fetched();
  m_transfers.release(arriving->id);
  m_by_id.erase(arriving->id);
  m_blobs.erase(found);
  base::ArrivingFile::remove(arriving->part);
  arriving->lock.reset();
  // Whoever else waits for it waits for nothing.
  if (!arriving->outcome)
    arriving->outcome = base::fail(ErrorCode::conflict, fmt::format("the blob {} is given up", blob.digest));
  m_changed.notify_all();
}

void RegistrySource::finished(const Descriptor& blob) {
  const std::scoped_lock lock(m_mutex);
  const auto found = m_blobs.find(blob.digest);
  if (found == m_blobs.end()) return;
  if (found->second->file && found->second->file->complete()) m_received.push_back(blob.digest);
  drop(blob);
}

void RegistrySource::spoiled(const Descriptor& blob) {
  const std::scoped_lock lock(m_mutex);
  drop(blob);
}

std::vector<std::string> RegistrySource::received() const {
  const std::scoped_lock lock(m_mutex);
  return m_received;
}

std::uint64_t RegistrySource::fetched() const {
  const std::scoped_lock lock(m_mutex);
  std::uint64_t sum = m_fetched;
  for (const auto& [digest, arriving] : m_blobs) sum += arriving->fetched();
  return sum;
}

void RegistrySource::opened(std::size_t id, std::shared_ptr<const base::ArrivingFile> file) {
  const std::scoped_lock lock(m_mutex);
  if (const auto found = m_by_id.find(id); found != m_by_id.end()) found->second->file = std::move(file);
  m_changed.notify_all();
}

void RegistrySource::arrived(std::size_t /*id*/) {
  const std::scoped_lock lock(m_mutex);
  m_changed.notify_all();
}

void RegistrySource::ended(std::size_t id, Result<void> outcome) {
  const std::scoped_lock lock(m_mutex);
  if (const auto found = m_by_id.find(id); found != m_by_id.end()) found->second->outcome = std::move(outcome);
  m_changed.notify_all();
}

}  // namespace startrail::image
