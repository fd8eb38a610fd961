#include "base/transfer_stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/http.hpp"

namespace startrail::base {
namespace {

// libcurl hands over at most one TLS record (16 KiB) at a time; fewer, larger writes cost less.
constexpr std::size_t k_buffer = 256U << 10U;

bool is_header(std::string_view line, std::string_view name) {
  return line.size() > name.size() && line[name.size()] == ':' &&
         std::ranges::equal(line.substr(0, name.size()), name,
                            [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

std::string value_of(std::string_view line) {
  line.remove_prefix(line.find(':') + 1);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.front())) != 0) line.remove_prefix(1);
  while (!line.empty() && std::isspace(static_cast<unsigned char>(line.back())) != 0) line.remove_suffix(1);
  return std::string(line);
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

struct ContentRange {
  std::uint64_t first = 0;
  std::optional<std::uint64_t> total;
};

// RFC 9110, 14.4: "bytes 0-499/1234", the total may be "*".
std::optional<ContentRange> parse_content_range(std::string_view text) {
  if (!text.starts_with("bytes ")) return std::nullopt;
  text.remove_prefix(6);
  const auto dash = text.find('-');
  const auto slash = text.find('/');
  if (dash == std::string_view::npos || slash == std::string_view::npos || dash > slash) return std::nullopt;
  const auto first = number(text.substr(0, dash));
  if (!first) return std::nullopt;
  return ContentRange{.first = *first, .total = number(text.substr(slash + 1))};
}

bool is_worth_another_try(CURLcode code) {
  switch (code) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_FILE_COULDNT_READ_FILE:
    case CURLE_TOO_MANY_REDIRECTS: return false;
    default: return true;
  }
}

}  // namespace

TransferStream::TransferStream(Request request)
    : m_request(std::move(request)), m_handle(curl_easy_init()), m_position(m_request.range.begin) {
  m_buffer.reserve(k_buffer + (32U << 10U));
  CURL* curl = m_handle;
  curl_easy_setopt(curl, CURLOPT_URL, m_request.address.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, is_local() ? "file" : "http,https");
  // What has credentials came over TLS for a reason: a redirect must not leave it.
  const bool stay_secret = m_request.headers && m_request.address.starts_with("https:");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, stay_secret ? "https" : "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 1L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 10L);
  // Several TCP connections carry more than one HTTP/2 connection with its own flow control.
  curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  set_credentials();
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "startrail");
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, 15L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_LIMIT, 1L);
  curl_easy_setopt(curl, CURLOPT_LOW_SPEED_TIME, static_cast<long>(m_request.stall.count()));
  curl_easy_setopt(curl, CURLOPT_BUFFERSIZE, static_cast<long>(k_buffer));
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, this);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(curl, CURLOPT_PRIVATE, this);
  if (m_request.header == RangeHeader::sent) {
    m_range_text = fmt::format("{}-{}", m_request.range.begin, m_request.range.end - 1);
    curl_easy_setopt(curl, CURLOPT_RANGE, m_range_text.c_str());
  }
}

TransferStream::~TransferStream() {
  curl_easy_cleanup(m_handle);
  curl_slist_free_all(m_headers);
}

void TransferStream::set_credentials() {
  curl_easy_setopt(m_handle, CURLOPT_NETRC,
                   static_cast<long>(m_request.headers ? CURL_NETRC_IGNORED : CURL_NETRC_OPTIONAL));
  if (const auto certificates = certificate_file()) curl_easy_setopt(m_handle, CURLOPT_CAINFO, certificates->c_str());
  if (!m_request.headers) return;
  for (const std::string& header : *m_request.headers) m_headers = curl_slist_append(m_headers, header.c_str());
  curl_easy_setopt(m_handle, CURLOPT_HTTPHEADER, m_headers);
}

std::string TransferStream::trouble(std::string_view why) const {
  const std::string from = is_local() ? without_credentials(m_request.address) : host_of(m_request.address);
  return fmt::format("cannot download {} from {}: {}", m_request.name, from, why);
}

std::size_t TransferStream::on_header(char* data, std::size_t size, std::size_t count, void* user) {
  auto& stream = *static_cast<TransferStream*>(user);
  const std::string_view line(data, size * count);
  if (line.starts_with("HTTP/")) {  // a redirect's header came before
    stream.m_content_range.clear();
    stream.m_retry_after.clear();
  }
  if (is_header(line, "content-range")) stream.m_content_range = value_of(line);
  if (is_header(line, "retry-after")) stream.m_retry_after = value_of(line);
  return size * count;
}

Result<void> TransferStream::take_size(std::optional<std::uint64_t> told) {
  if (!m_request.file) {
    if (!told) return fail(ErrorCode::unsupported, trouble("nobody says how large it is, not the server either"));
    m_request.file = TRY(m_request.open(*told));
    m_request.range.end = std::min(m_request.range.end, *told);
  }
  if (told && *told != m_request.file->size())
    return fail(ErrorCode::corrupt,
                trouble(fmt::format("the server has {} bytes, {} were promised", *told, m_request.file->size())));
  return {};
}

Result<void> TransferStream::check_answer() {
  long status = 0;
  curl_off_t length = -1;
  curl_easy_getinfo(m_handle, CURLINFO_RESPONSE_CODE, &status);
  curl_easy_getinfo(m_handle, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
  const auto told = length >= 0 ? std::optional(static_cast<std::uint64_t>(length)) : std::nullopt;
  if (status == 206) {
    const auto content = parse_content_range(m_content_range);
    if (!content || content->first != m_request.range.begin)
      return fail(ErrorCode::network, trouble("the server answered with another range than asked for"));
    TRY(take_size(content->total));
  } else if (status == 200) {
    TRY(take_size(told));
    m_ignores_ranges = m_request.header == RangeHeader::sent;
    m_position = 0;
    m_request.range = {0, m_request.file->size()};
  } else if (status != 0 || !is_local()) {
    return {};  // `finish` judges the status
  }
  m_answered = true;
  return {};
}

Result<void> TransferStream::flush() {
  if (m_buffer.empty()) return {};
  TRY(m_request.file->write(m_position - m_buffer.size(), m_buffer));
  m_buffer.clear();
  m_wrote = true;
  m_request.on_written();
  return {};
}

std::size_t TransferStream::on_body(char* data, std::size_t size, std::size_t count, void* user) {
  auto& stream = *static_cast<TransferStream*>(user);
  const std::size_t length = size * count;
  const auto stop = [&](Error reason) {
    stream.m_failure = std::move(reason);
    return std::size_t{0};
  };
  if (!stream.m_checked) {
    stream.m_checked = true;
    if (auto checked = stream.check_answer(); !checked) return stop(std::move(checked).error());
  }
  if (!stream.m_answered) return length;  // an error page
  if (stream.m_position + length > stream.m_request.range.end)
    return stop(error(ErrorCode::network, stream.trouble("the server sent more than it announced")));
  stream.m_buffer.append(data, length);
  stream.m_position += length;
  if (stream.m_buffer.size() >= k_buffer)
    if (auto written = stream.flush(); !written) return stop(std::move(written).error());
  return length;
}

StreamEnd TransferStream::finish(CURLcode code) {
  using Kind = StreamEnd::Kind;
  if (!m_failure && m_answered)
    if (auto written = flush(); !written) m_failure = std::move(written).error();
  if (m_failure) {
    const Kind kind = m_failure->code == ErrorCode::network ? Kind::broken : Kind::refused;
    return {.kind = kind, .reason = std::move(*m_failure), .wait = {}};
  }
  if (code != CURLE_OK && !(m_answered && m_position == m_request.range.end)) {
    const bool stalled = code == CURLE_OPERATION_TIMEDOUT;
    Error reason = error(ErrorCode::network, trouble(stalled ? "no answer in time" : curl_easy_strerror(code)));
    return {.kind = is_worth_another_try(code) ? Kind::broken : Kind::refused,
            .reason = std::move(reason).with_hint("check the network, and https_proxy if this machine needs one"),
            .wait = {}};
  }
  if (m_answered && m_position == m_request.range.end) return {.kind = Kind::whole, .reason = {}, .wait = {}};
  if (m_answered)
    return {.kind = Kind::broken, .reason = error(ErrorCode::network, trouble("the stream ended early")), .wait = {}};
  long status = 0;
  curl_easy_getinfo(m_handle, CURLINFO_RESPONSE_CODE, &status);
  const bool again = status == 408 || status == 429 || status >= 500 || status == 200 || status == 206;
  const bool gone = status == 404 || status == 410;
  const std::string why = m_checked || status != 206 ? fmt::format("HTTP status {}", status) : "an empty answer";
  const auto wait = std::chrono::seconds(std::min<std::uint64_t>(number(m_retry_after).value_or(0), 30));
  const bool closed = status == 401 || status == 403;
  return {.kind = again ? Kind::broken : Kind::refused,
          .reason = error(gone     ? ErrorCode::not_found
                          : closed ? ErrorCode::permission
                                   : ErrorCode::network,
                          trouble(why)),
          .wait = wait};
}

}  // namespace startrail::base
