#include "base/transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/http.hpp"
#include "base/transfer_stream.hpp"

namespace startrail::base {
namespace {

using Clock = std::chrono::steady_clock;

// A file up to this size is one request; a larger one is asked for its tail first.
constexpr std::uint64_t k_single_request = 2U << 20U;
// Chunks in one request: long enough to hide a round trip, short enough that a file's streams stay close together,
// for what is behind a gap can't be unpacked yet.
constexpr std::uint64_t k_run = 8;

enum class Ranges { unknown, asked, yes, no };

struct Download {
  std::size_t id = 0;
  TransferOrder order;
  std::shared_ptr<ArrivingFile> file;
  Ranges ranges = Ranges::unknown;
  std::vector<bool> taken;  // chunks that a stream is fetching
  std::deque<ByteRange> urgent;
  int streams = 0;
  int failures = 0;
  Clock::time_point not_before = Clock::time_point::min();
  bool ended = false;
  bool in_hand = false;  // its bulk has begun, and the caller isn't done with it
};

struct Active {
  std::unique_ptr<TransferStream> stream;
  Download* download = nullptr;
  ByteRange chunks;  // taken for this stream
};

}  // namespace

class Transfers::Loop {
 public:
  Loop(const TransferOptions& options, TransferListener& listener)
      : m_options(options), m_listener(listener), m_multi(start_curl()) {
    curl_multi_setopt(m_multi, CURLMOPT_MAXCONNECTS, static_cast<long>(options.streams) * 2);
    curl_multi_setopt(m_multi, CURLMOPT_PIPELINING, static_cast<long>(CURLPIPE_NOTHING));
    m_thread = std::thread([this] { run(); });
  }

  ~Loop() {
    {
      const std::scoped_lock lock(m_mutex);
      m_stop = true;
    }
    curl_multi_wakeup(m_multi);
    m_thread.join();
    for (auto& [handle, active] : m_active) curl_multi_remove_handle(m_multi, handle);
    m_active.clear();
    curl_multi_cleanup(m_multi);
  }

  std::size_t add(TransferOrder order) {
    std::size_t id = 0;
    {
      const std::scoped_lock lock(m_mutex);
      id = m_next_id++;
      m_added.push_back(std::make_unique<Download>(Download{.id = id, .order = std::move(order)}));
    }
    curl_multi_wakeup(m_multi);
    return id;
  }

  void want(std::size_t id, ByteRange range) {
    {
      const std::scoped_lock lock(m_mutex);
      m_wanted.emplace_back(id, range);
    }
    curl_multi_wakeup(m_multi);
  }

  void release(std::size_t id) {
    {
      const std::scoped_lock lock(m_mutex);
      m_released.push_back(id);
    }
    curl_multi_wakeup(m_multi);
  }

 private:
  static CURLM* start_curl() {
    static std::once_flag s_initialised;
    std::call_once(s_initialised, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    return curl_multi_init();
  }

  void run() {
    while (take_orders()) {
      const Clock::time_point next = start_streams();
      int running = 0;
      curl_multi_perform(m_multi, &running);
      if (reap()) continue;
      const auto wait = std::chrono::duration_cast<std::chrono::milliseconds>(next - Clock::now());
      curl_multi_poll(m_multi, nullptr, 0, static_cast<int>(std::clamp<std::int64_t>(wait.count(), 1, 1000)), nullptr);
    }
  }

  // False once the pool shall end.
  bool take_orders() {
    std::vector<std::unique_ptr<Download>> added;
    std::vector<std::pair<std::size_t, ByteRange>> wanted;
    std::vector<std::size_t> released;
    {
      const std::scoped_lock lock(m_mutex);
      if (m_stop) return false;
      added.swap(m_added);
      wanted.swap(m_wanted);
      released.swap(m_released);
    }
    for (auto& download : m_downloads)
      if (std::ranges::find(released, download->id) != released.end()) download->in_hand = false;
    for (auto& download : added) begin(std::move(download));
    for (const auto& [id, range] : wanted)
      for (auto& download : m_downloads)
        if (download->id == id) download->urgent.push_back(range);
    return true;
  }

  void begin(std::unique_ptr<Download> owned) {
    Download& download = *owned;
    const auto place = std::ranges::upper_bound(m_downloads, download.order.size, std::greater<>(),
                                                [](const auto& other) { return other->order.size; });
    m_downloads.insert(place, std::move(owned));
    if (download.order.size == 0) return;  // opened when the first answer tells the size
    if (auto opened = open(download, download.order.size); !opened)
      end(download, std::unexpected(std::move(opened).error()));
    else
      end_if_complete(download);
  }

  Result<std::shared_ptr<ArrivingFile>> open(Download& download, std::uint64_t size) {
    download.file = TRY(ArrivingFile::open(download.order.part, size));
    download.taken.assign(download.file->chunks(), false);
    m_listener.opened(download.id, download.file);
    if (download.file->resumed() > 0) m_listener.arrived(download.id);
    return download.file;
  }

  void end(Download& download, Result<void> outcome) {
    if (download.ended) return;
    download.ended = true;
    for (auto active = m_active.begin(); active != m_active.end();) {
      if (active->second.download != &download) {
        ++active;
        continue;
      }
      curl_multi_remove_handle(m_multi, active->first);
      active = m_active.erase(active);
    }
    m_listener.ended(download.id, std::move(outcome));
  }

  void end_if_complete(Download& download) {
    if (download.file && download.file->complete()) end(download, {});
  }

  // Fills the free places; returns when a waiting transfer may be tried again.
  Clock::time_point start_streams() {
    const auto now = Clock::now();
    auto next = now + std::chrono::seconds(1);
    for (const auto& download : m_downloads)
      if (!download->ended && download->not_before > now) next = std::min(next, download->not_before);
    // First answers and wanted ranges go before the bulk.
    for (const bool bulk : {false, true}) {
      for (auto& download : m_downloads) {
        while (static_cast<int>(m_active.size()) < m_options.streams && may_start(*download, now)) {
          if (bulk && !take_in_hand(*download)) break;
          const auto range = bulk ? next_run(*download) : next_urgent(*download);
          if (!range) break;
          start(*download, *range);
        }
      }
    }
    return next;
  }

  // Large files wait for their turn; small ones would not be noticed in the window.
  bool take_in_hand(Download& download) {
    if (download.in_hand || !download.file || download.file->size() <= k_single_request) return true;
    // Somebody waits for this one, and without ranges its bytes come only in order.
    if (download.ranges == Ranges::no && !download.urgent.empty()) return download.in_hand = true;
    std::uint64_t bytes = 0;
    int files = 0;
    for (const auto& other : m_downloads) {
      if (!other->in_hand) continue;
      bytes += other->file->size();
      ++files;
    }
    if (files >= 2 && bytes + download.file->size() > m_options.window) return false;
    download.in_hand = true;
    return true;
  }

  [[nodiscard]] bool may_start(const Download& download, Clock::time_point now) const {
    if (download.ended || download.not_before > now || download.ranges == Ranges::asked) return false;
    const int limit = download.ranges == Ranges::yes ? m_options.streams_per_file : 1;
    return download.streams < limit;
  }

  std::optional<ByteRange> next_urgent(Download& download) {
    if (download.ranges == Ranges::no) return std::nullopt;
    if (!download.file) return ByteRange{0, ArrivingFile::k_chunk};
    const std::uint64_t size = download.file->size();
    if (download.ranges == Ranges::unknown) {
      if (size <= k_single_request || download.order.tail == 0) return next_run(download);
      download.urgent.push_front({size - std::min(size, download.order.tail), size});
    }
    while (!download.urgent.empty()) {
      const ByteRange wanted = download.urgent.front();
      const auto last =
          std::min((wanted.end + ArrivingFile::k_chunk - 1) / ArrivingFile::k_chunk, download.file->chunks());
      if (const auto run = run_from(download, wanted.begin / ArrivingFile::k_chunk, last)) return run;
      download.urgent.pop_front();
    }
    // The tail came with an earlier process.
    return download.ranges == Ranges::unknown ? next_run(download) : std::nullopt;
  }

  static std::optional<ByteRange> next_run(Download& download) {
    if (!download.file) return std::nullopt;
    if (download.ranges == Ranges::no) return ByteRange{0, download.file->size()};
    return run_from(download, 0, download.file->chunks());
  }

  // The next bytes of chunks [first, last) that nobody fetches yet.
  static std::optional<ByteRange> run_from(const Download& download, std::uint64_t first, std::uint64_t last) {
    const ArrivingFile& file = *download.file;
    const auto missing = [&](std::uint64_t index) {
      return !download.taken[index] && file.chunk_received(index) < file.chunk_length(index);
    };
    while (first < last && !missing(first)) ++first;
    if (first >= last) return std::nullopt;
    const std::uint64_t begin = first * ArrivingFile::k_chunk + file.chunk_received(first);
    std::uint64_t stop = first + 1;
    while (stop < last && stop < first + k_run && missing(stop) && file.chunk_received(stop) == 0) ++stop;
    return ByteRange{begin, std::min(stop * ArrivingFile::k_chunk, file.size())};
  }

  void start(Download& download, ByteRange range) {
    const bool whole = download.file && range.begin == 0 && range.end == download.file->size();
    const ByteRange chunks = chunks_of(download, range);
    for (auto index = chunks.begin; index < chunks.end; ++index) download.taken[index] = true;
    if (download.ranges == Ranges::unknown) download.ranges = Ranges::asked;
    ++download.streams;
    Active active{.stream = std::make_unique<TransferStream>(TransferStream::Request{
                      .name = download.order.name,
                      .address = download.order.address,
                      .headers = download.order.headers ? std::optional(download.order.headers()) : std::nullopt,
                      .range = range,
                      .header = whole ? RangeHeader::left_out : RangeHeader::sent,
                      .stall = m_options.stall,
                      .file = download.file,
                      .open = [this, &download](std::uint64_t size) { return open(download, size); },
                      .on_written = [this, &download] { written(download); }}),
                  .download = &download,
                  .chunks = chunks};
    CURL* handle = active.stream->handle();
    m_active.emplace(handle, std::move(active));
    curl_multi_add_handle(m_multi, handle);
  }

  static ByteRange chunks_of(const Download& download, ByteRange range) {
    if (!download.file || download.ranges == Ranges::no) return {};
    return {range.begin / ArrivingFile::k_chunk, (range.end + ArrivingFile::k_chunk - 1) / ArrivingFile::k_chunk};
  }

  void written(Download& download) {
    download.failures = 0;
    m_listener.arrived(download.id);
  }

  // Takes in finished streams; true when there were some.
  bool reap() {
    bool any = false;
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(m_multi, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      any = true;
      CURL* handle = message->easy_handle;
      const CURLcode code = message->data.result;
      const auto found = m_active.find(handle);
      if (found == m_active.end()) continue;
      Active active = std::move(found->second);
      m_active.erase(found);
      curl_multi_remove_handle(m_multi, handle);
      settle(active, code);
    }
    return any;
  }

  void settle(Active& active, CURLcode code) {
    Download& download = *active.download;
    StreamEnd outcome = active.stream->finish(code);
    --download.streams;
    for (auto index = active.chunks.begin; index < active.chunks.end; ++index) download.taken[index] = false;
    if (active.stream->answered())
      download.ranges = active.stream->ignores_ranges() ? Ranges::no : Ranges::yes;
    else if (download.ranges == Ranges::asked)
      download.ranges = Ranges::unknown;
    if (outcome.kind == StreamEnd::Kind::whole) return end_if_complete(download);
    if (outcome.kind == StreamEnd::Kind::refused || ++download.failures >= m_options.attempts)
      return end(download, std::unexpected(std::move(outcome.reason)));
    const auto delay =
        std::min(m_options.first_delay * (1 << std::min(download.failures - 1, 6)), std::chrono::milliseconds(15'000));
    download.not_before = Clock::now() + std::max(delay, outcome.wait);
  }

  TransferOptions m_options;
  TransferListener& m_listener;
  CURLM* m_multi;
  std::vector<std::unique_ptr<Download>> m_downloads;  // largest first
  std::map<CURL*, Active> m_active;

  std::mutex m_mutex;
  std::vector<std::unique_ptr<Download>> m_added;
  std::vector<std::pair<std::size_t, ByteRange>> m_wanted;
  std::vector<std::size_t> m_released;
  std::size_t m_next_id = 0;
  bool m_stop = false;
  std::thread m_thread;
};

Transfers::Transfers(const TransferOptions& options, TransferListener& listener)
    : m_loop(std::make_unique<Loop>(options, listener)) {}
Transfers::~Transfers() = default;
std::size_t Transfers::add(TransferOrder order) {
  return m_loop->add(std::move(order));
}
void Transfers::want(std::size_t id, std::uint64_t offset, std::uint64_t length) {
  m_loop->want(id, {offset, offset + length});
}

void Transfers::release(std::size_t id) {
  m_loop->release(id);
}

std::string file_address(const std::filesystem::path& file) {
  std::string text = "file://";
  for (const char letter : file.string()) {
    const auto byte = static_cast<unsigned char>(letter);
    if (std::isalnum(byte) != 0 || std::string_view("/-._~+").contains(letter))
      text += letter;
    else
      text += fmt::format("%{:02X}", byte);
  }
  return text;
}

}  // namespace startrail::base
