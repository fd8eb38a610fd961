// One request of a Transfers pool: its curl handle, the check of the answer, buffered writing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <curl/curl.h>

#include "base/arriving_file.hpp"
#include "base/error.hpp"

namespace startrail::base {

struct ByteRange {
  std::uint64_t begin = 0, end = 0;
  [[nodiscard]] std::uint64_t length() const { return end - begin; }
};

enum class RangeHeader { sent, left_out };

// How a stream ended, and what that means for the transfer.
struct StreamEnd {
  enum class Kind { whole, broken, refused } kind = Kind::broken;  // broken: worth another attempt
  Error reason;
  std::chrono::milliseconds wait{0};  // what the server asked for by Retry-After
};

class TransferStream {
 public:
  struct Request {
    std::string name, address;
    std::optional<std::vector<std::string>> headers;  // nullopt: none, and netrc has a say
    ByteRange range;
    RangeHeader header = RangeHeader::sent;
    std::chrono::seconds stall{15};
    std::shared_ptr<ArrivingFile> file;  // null while the size isn't known
    // Opens the file once the answer has told the size.
    std::function<Result<std::shared_ptr<ArrivingFile>>(std::uint64_t size)> open;
    std::function<void()> on_written;
  };
  explicit TransferStream(Request request);
  ~TransferStream();
  TransferStream(const TransferStream&) = delete;
  TransferStream& operator=(const TransferStream&) = delete;

  [[nodiscard]] CURL* handle() const { return m_handle; }
  // The answer's header has been checked and is usable.
  [[nodiscard]] bool answered() const { return m_answered; }
  // A range was asked for, the whole content came.
  [[nodiscard]] bool ignores_ranges() const { return m_ignores_ranges; }
  [[nodiscard]] bool wrote() const { return m_wrote; }
  [[nodiscard]] ByteRange range() const { return m_request.range; }
  // Writes what is buffered and judges the end.
  [[nodiscard]] StreamEnd finish(CURLcode code);

 private:
  static std::size_t on_header(char* data, std::size_t size, std::size_t count, void* user);
  static std::size_t on_body(char* data, std::size_t size, std::size_t count, void* user);
  [[nodiscard]] Result<void> check_answer();
  [[nodiscard]] Result<void> take_size(std::optional<std::uint64_t> told);
  [[nodiscard]] Result<void> flush();
  void set_credentials();
  [[nodiscard]] bool is_local() const { return m_request.address.starts_with("file://"); }
  [[nodiscard]] std::string trouble(std::string_view why) const;

  Request m_request;
  CURL* m_handle;
  curl_slist* m_headers = nullptr;
  std::string m_range_text, m_content_range, m_retry_after;
  std::string m_buffer;
  std::uint64_t m_position;  // of the next byte that arrives
  bool m_checked = false, m_answered = false, m_ignores_ranges = false, m_wrote = false;
  std::optional<Error> m_failure;  // why a callback ended the stream
};

}  // namespace startrail::base
