// A pool of parallel downloads over libcurl's multi interface: ranged, resumable, largest first.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/arriving_file.hpp"
#include "base/error.hpp"

namespace startrail::base {

struct TransferOrder {
  std::string name;            // what messages call it
  std::string address;         // http://, https:// or file://
  std::filesystem::path part;  // where it arrives; what an earlier process left there is not fetched again
  std::uint64_t size = 0;      // 0: the server says it
  std::uint64_t tail = 0;      // so many bytes of the end come first (a zip's directory is there)
  // Asked for when a request begins, from the pool's own thread: credentials may have changed since the last one. They
  // go to the address's own host only, and netrc is not looked at. Unset: none, and netrc is.
  std::function<std::vector<std::string>()> headers = {};
};

// Called from the pool's own thread, which does nothing else meanwhile: be short. For one transfer:
// `opened` once its size is known, `arrived` whenever more bytes can be read, `ended` once.
class TransferListener {
 public:
  virtual ~TransferListener() = default;
  virtual void opened(std::size_t id, std::shared_ptr<const ArrivingFile> file) = 0;
  virtual void arrived(std::size_t id) = 0;
  // Errors: network (after retries), not_found (404, 410), permission (401, 403), corrupt (another size than ordered),
  // no_space.
  virtual void ended(std::size_t id, Result<void> outcome) = 0;
};

struct TransferOptions {
  int streams = 16;
  int streams_per_file = 8;
  // Files of so many bytes are fetched side by side; the next one begins when `release` has made room. What is taken
  // up soon after it arrived is still in memory, and its pages serve what comes next. At least two are in hand.
  std::uint64_t window = 1'000'000'000;
  int attempts = 6;                            // in a row without a new byte, per transfer
  std::chrono::milliseconds first_delay{400};  // before the second attempt; doubles each time, capped at 15 s
  std::chrono::seconds stall{15};              // a stream without a byte for so long is replaced
};

// Ranges of several files are fetched over HTTP/1.1 connections that are kept and used again. Connection failures,
// resets, stalls, 429 and 5xx are retried from the byte they broke at; a server that ignores Range is read from the
// start over one stream. Content is not checked here: its hash is the caller's business.
class Transfers {
 public:
  Transfers(const TransferOptions& options, TransferListener& listener);
  // Ends every stream; parts and journals stay for the next time.
  ~Transfers();
  Transfers(const Transfers&) = delete;
  Transfers& operator=(const Transfers&) = delete;

  // Returns the id that the listener is called with: 0, 1, 2 …
  std::size_t add(TransferOrder order);
  // Fetches these bytes before anything else.
  void want(std::size_t id, std::uint64_t offset, std::uint64_t length);
  // The caller is done with the bytes of this transfer.
  void release(std::size_t id);

 private:
  class Loop;
  std::unique_ptr<Loop> m_loop;
};

// "file:///a%20b": the address of a local file. `file` is absolute.
[[nodiscard]] std::string file_address(const std::filesystem::path& file);

}  // namespace startrail::base
