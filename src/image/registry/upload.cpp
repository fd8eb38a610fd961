#include "image/registry/upload.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <thread>

namespace startrail::image {
namespace {

constexpr auto k_longest_delay = std::chrono::milliseconds(15'000);

std::string with_digest(std::string location, const std::string& digest) {
  location += location.find('?') == std::string::npos ? '?' : '&';
  return location + "digest=" + digest;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

class Upload {
 public:
  Upload(Session& session, const Descriptor& blob, const UploadContent& content, const UploadOptions& options)
      : m_session(session), m_blob(blob), m_content(content), m_options(options), m_location(options.location) {}

  Result<void> run() {
    auto delay = m_session.options().first_delay;
    std::uint64_t furthest = 0;  // a registry that forgets what it took must not have it sent for ever
    for (int failures = 0;;) {
      auto done = m_chunked || m_offset > 0 ? send_chunks() : send_whole();
      if (done) return {};
      if (!m_again) return base::fail(named(std::move(done).error()));
      if (m_offset > furthest) failures = 0, delay = m_session.options().first_delay;
      furthest = std::max(furthest, m_offset);
      if (++failures >= m_session.options().attempts) return base::fail(named(std::move(done).error()));
      if (*m_again == Again::later) std::this_thread::sleep_for(delay);
      delay = std::min(delay * 2, k_longest_delay);
      if (*m_again == Again::later && recover()) return {};
    }
  }

 private:
  enum class Again { at_once, later };

  Error named(Error reason) const {
    return std::move(reason).with_context(
        fmt::format("while uploading {} to {}", m_blob.digest.substr(0, 19), m_session.reference().place()));
  }

  // Fails for good unless `again` says otherwise.
  std::unexpected<Error> failed(Error reason, std::optional<Again> again = std::nullopt) {
    m_again = again;
    return base::fail(std::move(reason));
  }

  void start_over() {
    m_location.clear();
    m_offset = 0;
  }

  Result<void> begin() {
    if (!m_location.empty()) return {};
    auto response = m_session.send({.method = "POST", .path = "blobs/uploads/"});
    if (!response) return failed(std::move(response).error());
    if (response->status != 202)
      return failed(m_session.refusal(*response, fmt::format("when the upload of {} was to begin", m_blob.digest)));
    if (const auto least = number(response->headers["oci-chunk-min-length"]); least && *least > 0) {
      m_chunked = true;
      m_least = *least;
    }
    return follow(*response);
  }

  // Where the next request of this upload goes.
  Result<void> follow(const base::HttpResponse& response) {
    const auto location = response.headers.find("location");
    if (location == response.headers.end() || location->second.empty())
      return failed(base::error(
          ErrorCode::network,
          fmt::format("{} does not say where the upload goes on (no Location)", m_session.reference().host)));
    m_location = m_session.resolve(location->second);
    return {};
  }

  RegistryRequest request(const std::string& method, const std::string& address, std::uint64_t length) const {
    RegistryRequest made{.method = method,
                         .path = address,
                         .headers = {"Content-Type: application/octet-stream"},
                         .retries = Retries::busy_only,
                         .timeout = std::chrono::seconds(0),
                         .on_bytes = m_options.on_bytes};
    if (m_content.file)
      made.file = base::HttpFile{.file = *m_content.file, .offset = m_offset, .length = length};
    else
      made.body = m_content.text.substr(m_offset, length);
    return made;
  }

  Result<void> send_whole() {
    TRY(begin());
    if (m_chunked) return send_chunks();  // `begin` was told so
    auto response = m_session.send(request("PUT", with_digest(m_location, m_blob.digest), m_blob.size));
    if (!response) return failed_on_the_way(std::move(response).error());
    return judge_end(*response);
  }

  Result<void> send_chunks() {
    TRY(begin());
    while (m_offset < m_blob.size) TRY(send_chunk());
    auto response = m_session.send(request("PUT", with_digest(m_location, m_blob.digest), 0));
    if (!response) return failed_on_the_way(std::move(response).error());
    return judge_end(*response);
  }

  Result<void> send_chunk() {
    const std::uint64_t left = m_blob.size - m_offset;
    const std::uint64_t length = m_chunked ? std::min(left, std::max(m_session.options().chunk, m_least)) : left;
    RegistryRequest chunk = request("PATCH", m_location, length);
    chunk.headers.push_back(fmt::format("Content-Range: {}-{}", m_offset, m_offset + length - 1));
    auto response = m_session.send(chunk);
    if (!response) return failed_on_the_way(std::move(response).error());
    if (response->status == 413 && !m_chunked) return too_large();
    if (response->status == 416 || response->status == 404)
      return failed(m_session.refusal(*response, "in the middle of an upload"), Again::later);
    if (response->status != 202) return failed(m_session.refusal(*response, "in the middle of an upload"));
    const std::uint64_t has = bytes_in_range(response->headers["range"]).value_or(m_offset + length);
    if (has <= m_offset)
      return failed(base::error(ErrorCode::network, fmt::format("{} took a chunk but has no more than {} of the upload",
                                                                m_session.reference().host, to_text(Bytes{has}))),
                    Again::later);
    m_offset = std::min(has, m_blob.size);
    return follow(*response);
  }

  Result<void> judge_end(const base::HttpResponse& response) {
    if (response.status == 201 || response.status == 204) return {};
    Error reason = m_session.refusal(response, fmt::format("when {} was uploaded", m_blob.digest));
    if (response.status == 413 && !m_chunked) return too_large();
    if (response.status == 404) {  // the upload was forgotten meanwhile
      start_over();
      return failed(std::move(reason), Again::later);
    }
    if (!response.body.contains("DIGEST_INVALID")) return failed(std::move(reason));
    reason.code = ErrorCode::hash_mismatch;
    const bool pieced = m_resumed;
    m_may_resume = false;
    start_over();
    // Its pieces didn't fit together; sent as a whole they will.
    return pieced ? failed(std::move(reason), Again::at_once) : failed(std::move(reason));
  }

  std::unexpected<Error> too_large() {
    m_chunked = true;
    start_over();
    return failed(base::error(ErrorCode::network, fmt::format("{} takes no body of {}", m_session.reference().host,
                                                              to_text(Bytes{m_blob.size}))),
                  Again::at_once);
  }

  std::unexpected<Error> failed_on_the_way(Error reason) {
    const bool again = reason.code == ErrorCode::network;
    return failed(std::move(reason), again ? std::optional(Again::later) : std::nullopt);
  }

  // After a break: true when the registry has the blob all the same; else the upload goes on where it broke, if the
  // registry knows where that is.
  bool recover() {
    const auto there = m_session.send({.method = "HEAD", .path = "blobs/" + m_blob.digest});
    if (there && there->status == 200) return true;
    if (m_location.empty()) return false;
    const auto status =
        m_may_resume ? m_session.send({.path = m_location, .retries = Retries::busy_only}) : std::unexpected(Error{});
    std::optional<std::uint64_t> has;
    if (status && status->status == 204)
      if (const auto range = status->headers.find("range"); range != status->headers.end())
        has = bytes_in_range(range->second);
    if (!has || *has > m_blob.size || !status->headers.contains("location") || !follow(*status)) {
      start_over();
      return false;
    }
    m_offset = *has;
    m_resumed = true;
    return false;
  }

  Session& m_session;
  const Descriptor& m_blob;
  const UploadContent& m_content;
  const UploadOptions& m_options;
  std::string m_location;
  std::uint64_t m_offset = 0;  // bytes that the registry has
  std::uint64_t m_least = 0;   // of a chunk
  bool m_chunked = false, m_resumed = false, m_may_resume = true;
  std::optional<Again> m_again;  // after a failure
};

}  // namespace

std::optional<std::uint64_t> bytes_in_range(std::string_view header) {
  if (header.starts_with("bytes=")) header.remove_prefix(6);
  if (!header.starts_with("0-")) return std::nullopt;
  const auto last = number(header.substr(2));
  if (!last || *last == 0) return std::nullopt;
  return *last + 1;
}

Result<void> upload_blob(Session& session, const Descriptor& blob, const UploadContent& content,
                         const UploadOptions& options) {
  return Upload(session, blob, content, options).run();
}

}  // namespace startrail::image
