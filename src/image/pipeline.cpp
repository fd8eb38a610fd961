#include "image/pipeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <queue>
#include <thread>

#include <sys/resource.h>

#include "image/unpack.hpp"
#include "image/wheel_finish.hpp"

namespace startrail::image {
namespace {

constexpr std::uint64_t k_at_once = std::numeric_limits<std::uint64_t>::max();
constexpr auto k_report_interval = std::chrono::milliseconds(100);

class Pipeline;
struct Wheel;

int worker_count(int wanted) {
  return wanted > 0 ? wanted : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

// A piece of work. `run` goes as far as the arrived bytes allow.
struct Job {
  enum class Kind { unpack, hash, finish, tree };
  explicit Job(Kind k) : kind(k) {}
  virtual ~Job() = default;
  [[nodiscard]] virtual Result<Need> run(WorkerBuffers& buffers) = 0;
  const Kind kind;
  Wheel* wheel = nullptr;
  std::uint64_t weight = k_at_once;  // the largest goes first: what takes longest must not begin last
  Span need;                         // of the archive, before it can run
};
using JobPointer = std::unique_ptr<Job>;
struct Lighter {
  bool operator()(const JobPointer& a, const JobPointer& b) const { return a->weight < b->weight; }
};

// What went wrong with a wheel decides which of its jobs still make sense.
enum class Trouble {
  none,
  content,   // only its hash: it tells a damaged transfer from a bad wheel
  transfer,  // no more bytes will come
};

// One wheel on its way. Jobs of a wheel run side by side; `pending` counts those that haven't finished.
struct Wheel {
  WheelSource source;
  std::optional<base::FileLock> lock;
  std::shared_ptr<const base::ArrivingFile> file;
  std::optional<Beneath> root;
  Unpacking unpacking;
  ZipEnd end;
  std::optional<ArchiveHash> hash;
  std::string actual_hash;
  std::atomic<int> pending{0};
  std::atomic<Trouble> trouble{Trouble::none};
  std::atomic<bool> done{false};

  std::mutex mutex;  // guards what follows, and `file` when it changes
  std::vector<JobPointer> waiting;
  std::optional<Error> content_failure, transfer_failure;
  std::size_t transfer = 0;
  int refetched = 0;
  bool looked_up = false;
};

// What only says that the archive isn't what it should be: then its hash decides whether to fetch it again.
bool is_about_content(ErrorCode code) {
  return code == ErrorCode::corrupt || code == ErrorCode::unsafe_path || code == ErrorCode::conflict ||
         code == ErrorCode::hash_mismatch || code == ErrorCode::unsupported;
}

class Pipeline final : public base::TransferListener {
 public:
  Pipeline(const Store& store, const PipelineOptions& options, Reporter& reporter)
      : m_store(store), m_options(options), m_reporter(reporter) {}

  Result<void> run(std::vector<WheelSource> sources);

  // ---- base::TransferListener, from the network's thread ----
  void opened(std::size_t id, std::shared_ptr<const base::ArrivingFile> file) override;
  void arrived(std::size_t id) override { release(wheel_of(id)); }
  void ended(std::size_t id, Result<void> outcome) override;

  // ---- for jobs ----
  Result<Need> read_directory(Wheel& wheel, WorkerBuffers& buffers, bool& end_known);
  Result<Need> finish(Wheel& wheel);
  Result<void> give_tree(const WheelSource& source);

 private:
  Result<void> round(std::vector<WheelSource>& sources);
  void fetch(Wheel& wheel, const std::string& address);
  void give_room(const Wheel& wheel);
  Wheel& wheel_of(std::size_t id);
  void submit(JobPointer job);
  void push(JobPointer job);
  void release(Wheel& wheel);
  void break_wheel(Wheel& wheel, Trouble trouble, Error reason);
  void finished(Wheel* wheel);
  void work();
  void run_job(JobPointer job, WorkerBuffers& buffers);
  void fail(Error reason);
  Result<void> wait();
  void report();
  Result<void> make_staging(Wheel& wheel);
  void submit_entries(Wheel& wheel);
  Result<Need> start_again(Wheel& wheel);
  Result<void> ask_index(Wheel& wheel, std::string& address);

  const Store& m_store;
  const PipelineOptions& m_options;
  Reporter& m_reporter;
  std::vector<std::unique_ptr<Wheel>> m_wheels;
  base::Transfers* m_transfers = nullptr;

  std::mutex m_mutex;  // guards what follows
  std::condition_variable m_work, m_done;
  std::priority_queue<JobPointer, std::vector<JobPointer>, Lighter> m_ready;
  std::vector<Wheel*> m_by_transfer;
  std::size_t m_left = 0;  // wheels and trees not done
  std::optional<Error> m_failure;
  bool m_stop = false;
};

// Finds the archive's directory, checks it, makes the folders, and sets the other jobs going.
struct DirectoryJob final : Job {
  explicit DirectoryJob(Pipeline& p) : Job(Kind::unpack), pipeline(p) {}
  Result<Need> run(WorkerBuffers& buffers) override { return pipeline.read_directory(*wheel, buffers, end_known); }
  Pipeline& pipeline;
  bool end_known = false;
};

struct BatchJob final : Job {
  BatchJob(std::size_t first_entry, std::size_t last_entry) : Job(Kind::unpack), first(first_entry), last(last_entry) {}
  Result<Need> run(WorkerBuffers& buffers) override {
    TRY(unpack_batch(wheel->unpacking, first, last, buffers));
    return std::nullopt;
  }
  std::size_t first, last;
};

struct StreamJob final : Job {
  StreamJob(Unpacking& unpacking, std::size_t index) : Job(Kind::unpack), stream(unpacking, index) {}
  Result<Need> run(WorkerBuffers& buffers) override { return stream.advance(buffers); }
  EntryStream stream;
};

struct HashJob final : Job {
  HashJob() : Job(Kind::hash) {}
  Result<Need> run(WorkerBuffers& buffers) override {
    const Need next = TRY(wheel->hash->advance(buffers));
    weight = wheel->hash->left();
    if (!next) wheel->actual_hash = wheel->hash->finish();
    return next;
  }
};

struct FinishJob final : Job {
  explicit FinishJob(Pipeline& p) : Job(Kind::finish), pipeline(p) {}
  Result<Need> run(WorkerBuffers&) override { return pipeline.finish(*wheel); }
  Pipeline& pipeline;
};

// A tree that the store has already.
struct TreeJob final : Job {
  TreeJob(Pipeline& p, WheelSource s) : Job(Kind::tree), pipeline(p), source(std::move(s)) {}
  Result<Need> run(WorkerBuffers&) override {
    TRY(pipeline.give_tree(source));
    return std::nullopt;
  }
  Pipeline& pipeline;
  WheelSource source;
};

// ---- scheduling ----

Wheel& Pipeline::wheel_of(std::size_t id) {
  const std::scoped_lock lock(m_mutex);
  return *m_by_transfer[id];
}

void Pipeline::push(JobPointer job) {
  {
    const std::scoped_lock lock(m_mutex);
    m_ready.push(std::move(job));
  }
  m_work.notify_one();
}

// Jobs of a broken wheel are only counted off.
bool is_pointless(const Wheel& wheel, const Job& job) {
  const Trouble trouble = wheel.trouble;
  return (trouble == Trouble::transfer && job.kind != Job::Kind::finish) ||
         (trouble == Trouble::content && job.kind == Job::Kind::unpack);
}

bool can_run(const Wheel& wheel, const Job& job) {
  return is_pointless(wheel, job) || job.need.length == 0 ||
         wheel.file->available(job.need.offset, job.need.length) == job.need.length;
}

// Now, or when its bytes are there.
void Pipeline::submit(JobPointer job) {
  Wheel& wheel = *job->wheel;
  {
    const std::scoped_lock lock(wheel.mutex);
    if (!can_run(wheel, *job)) {
      wheel.waiting.push_back(std::move(job));
      return;
    }
  }
  push(std::move(job));
}

// More bytes arrived, or the wheel broke.
void Pipeline::release(Wheel& wheel) {
  std::vector<JobPointer> ready;
  {
    const std::scoped_lock lock(wheel.mutex);
    const auto able =
        std::ranges::stable_partition(wheel.waiting, [&](const auto& job) { return !can_run(wheel, *job); });
    std::ranges::move(able, std::back_inserter(ready));
    wheel.waiting.erase(able.begin(), able.end());
  }
  for (JobPointer& job : ready) push(std::move(job));
}

void Pipeline::break_wheel(Wheel& wheel, Trouble trouble, Error reason) {
  {
    const std::scoped_lock lock(wheel.mutex);
    auto& place = trouble == Trouble::content ? wheel.content_failure : wheel.transfer_failure;
    if (!place) place = std::move(reason);
    wheel.trouble = std::max(wheel.trouble.load(), trouble);
  }
  release(wheel);
}

void Pipeline::fail(Error reason) {
  const std::scoped_lock lock(m_mutex);
  if (!m_failure) m_failure = std::move(reason);
  m_stop = true;
  m_work.notify_all();
  m_done.notify_all();
}

// The last job of a wheel to finish hands it to FinishJob.
void Pipeline::finished(Wheel* wheel) {
  if (wheel == nullptr || wheel->pending.fetch_sub(1) != 1) return;
  auto job = std::make_unique<FinishJob>(*this);
  job->wheel = wheel;
  push(std::move(job));
}

void Pipeline::run_job(JobPointer job, WorkerBuffers& buffers) {
  Wheel* wheel = job->wheel;
  const bool last = job->kind == Job::Kind::finish;
  Result<Need> outcome = Need();
  if (wheel == nullptr || !is_pointless(*wheel, *job)) outcome = job->run(buffers);
  if (!outcome && (wheel == nullptr || last || !is_about_content(outcome.error().code)))
    return fail(std::move(outcome).error());
  if (outcome && *outcome) {
    job->need = **outcome;
    return submit(std::move(job));
  }
  job.reset();
  if (!outcome) break_wheel(*wheel, Trouble::content, std::move(outcome).error());
  if (!last) finished(wheel);
}

void Pipeline::work() {
  if (m_options.niceness != 0) ::setpriority(PRIO_PROCESS, 0, m_options.niceness);  // on Linux: this thread alone
  WorkerBuffers buffers;
  std::unique_lock lock(m_mutex);
  for (;;) {
    m_work.wait(lock, [&] { return m_stop || !m_ready.empty(); });
    if (m_stop) return;
    // priority_queue gives no way to move its top out.
    JobPointer job = std::move(const_cast<JobPointer&>(m_ready.top()));
    m_ready.pop();
    lock.unlock();
    run_job(std::move(job), buffers);
    lock.lock();
  }
}

// ---- one wheel ----

void Pipeline::fetch(Wheel& wheel, const std::string& address) {
  const std::scoped_lock lock(m_mutex);
  wheel.transfer = m_by_transfer.size();
  m_by_transfer.push_back(&wheel);
  const std::uint64_t size = wheel.source.size;
  // A zip's directory takes about a quarter of a percent; RECORD usually lies just before it.
  m_transfers->add({.name = wheel.source.filename,
                    .address = address,
                    .part = m_store.part(wheel.source.sha256),
                    .size = size,
                    .tail = std::clamp<std::uint64_t>(size / 256, 128U << 10U, 4U << 20U)});
}

// Its part is gone, or will be fetched by another transfer.
void Pipeline::give_room(const Wheel& wheel) {
  const std::scoped_lock lock(m_mutex);
  m_transfers->release(wheel.transfer);
}

void Pipeline::opened(std::size_t id, std::shared_ptr<const base::ArrivingFile> file) {
  Wheel& wheel = wheel_of(id);
  {
    const std::scoped_lock lock(wheel.mutex);
    wheel.file = std::move(file);
  }
  wheel.unpacking.file = wheel.file.get();
  wheel.hash.emplace(*wheel.file);

  wheel.pending = 2;
  auto directory = std::make_unique<DirectoryJob>(*this);
  directory->wheel = &wheel;
  directory->need.length = std::min(wheel.file->size(), k_zip_end_size);
  directory->need.offset = wheel.file->size() - directory->need.length;
  auto hash = std::make_unique<HashJob>();
  hash->wheel = &wheel;
  hash->weight = wheel.file->size();
  hash->need.length = std::min<std::uint64_t>(wheel.file->size(), 1U << 20U);
  if (wheel.source.size == 0) m_transfers->want(id, directory->need.offset, directory->need.length);
  submit(std::move(directory));
  submit(std::move(hash));
}

void Pipeline::ended(std::size_t id, Result<void> outcome) {
  Wheel& wheel = wheel_of(id);
  if (outcome) return release(wheel);
  const bool began = wheel.file != nullptr;
  if (!began) wheel.pending = 1;  // no job will carry the news
  break_wheel(wheel, Trouble::transfer, std::move(outcome).error());
  if (!began) finished(&wheel);
}

Result<Need> Pipeline::read_directory(Wheel& wheel, WorkerBuffers& buffers, bool& end_known) {
  const base::ArrivingFile& file = *wheel.file;
  if (!end_known) {
    const auto tail = std::span(buffers.input).first(std::min(file.size(), k_zip_end_size));
    TRY(file.read(file.size() - tail.size(), tail));
    wheel.end = TRY(find_zip_end(tail, file.size()));
    if (wheel.end.directory_size > ZipLimits().directory_size)
      return base::fail(ErrorCode::corrupt,
                        fmt::format("its directory takes {}", to_text(Bytes{wheel.end.directory_size})));
    end_known = true;
    const Span need{.offset = wheel.end.directory_offset, .length = wheel.end.directory_size};
    if (file.available(need.offset, need.length) < need.length) {
      const std::scoped_lock lock(m_mutex);
      m_transfers->want(wheel.transfer, need.offset, need.length);
      return need;
    }
  }
  std::vector<std::byte> directory(wheel.end.directory_size);
  TRY(file.read(wheel.end.directory_offset, directory));
  wheel.unpacking.entries = TRY(read_zip_directory(directory, wheel.end));
  wheel.unpacking.layout = TRY(wheel_layout(wheel.unpacking.entries));
  wheel.unpacking.digests.assign(wheel.unpacking.entries.size(), {});
  TRY(make_staging(wheel));
  submit_entries(wheel);
  return std::nullopt;
}

Result<void> Pipeline::make_staging(Wheel& wheel) {
  const fs::path staging = m_store.staging(wheel_key(wheel.source.sha256));
  TRY(base::make_directories(staging));
  wheel.root.emplace(TRY(Beneath::open(staging)));
  wheel.unpacking.root = &*wheel.root;
  std::string last;
  std::vector<std::string> folders;
  for (std::size_t index = 0; index < wheel.unpacking.entries.size(); ++index) {
    if (wheel.unpacking.entries[index].is_folder()) continue;
    const std::string& target = wheel.unpacking.layout.placements[index].target;
    const std::size_t slash = target.rfind('/');
    if (slash != std::string::npos && target.substr(0, slash) != last)
      folders.push_back(last = target.substr(0, slash));
  }
  std::ranges::sort(folders);
  const auto rest = std::ranges::unique(folders);
  folders.erase(rest.begin(), rest.end());
  for (const std::string& folder : folders) TRY(wheel.root->make_folder(folder));
  return {};
}

void Pipeline::submit_entries(Wheel& wheel) {
  const std::vector<ZipEntry>& entries = wheel.unpacking.entries;
  std::vector<JobPointer> jobs;
  for (std::size_t first = 0; first < entries.size();) {
    const ZipEntry& entry = entries[first];
    const auto is_small = [](const ZipEntry& other) {
      return other.size <= k_small_entry && other.end - other.header_offset <= k_small_entry;
    };
    JobPointer job;
    std::size_t last = first + 1;
    std::uint64_t weight = entry.size;
    if (is_small(entry)) {
      for (; last < entries.size() && is_small(entries[last]) &&
             entries[last].header_offset - entry.header_offset < k_batch;
           ++last)
        weight += entries[last].size;
      job = std::make_unique<BatchJob>(first, last);
      job->need.length = entries[last - 1].end - entry.header_offset;
    } else {
      job = std::make_unique<StreamJob>(wheel.unpacking, first);
      job->need.length = std::min<std::uint64_t>(1U << 20U, entry.end - entry.header_offset);
    }
    job->wheel = &wheel;
    job->weight = weight;
    job->need.offset = entry.header_offset;
    jobs.push_back(std::move(job));
    first = last;
  }
  wheel.pending += static_cast<int>(jobs.size());
  for (JobPointer& job : jobs) submit(std::move(job));
}

Result<void> Pipeline::give_tree(const WheelSource& source) {
  const fs::path folder = m_store.wheel(source.sha256);
  base::ArrivingFile::remove(m_store.part(source.sha256));  // of a builder that died between its two last steps
  if (m_options.on_tree) {
    const WheelTree tree = TRY(read_wheel_tree(folder));
    TRY(m_options.on_tree(source, tree, folder));
  }
  const std::scoped_lock lock(m_mutex);
  if (--m_left == 0) m_done.notify_all();
  return {};
}

// Everything of the attempt goes, but for the bytes that may be right.
Result<Need> Pipeline::start_again(Wheel& wheel) {
  TRY(base::remove_tree(m_store.staging(wheel_key(wheel.source.sha256))));
  std::string address = wheel.source.address;
  if (wheel.looked_up) TRY(ask_index(wheel, address));
  give_room(wheel);
  wheel.hash.reset();
  wheel.root.reset();
  wheel.unpacking = {};
  wheel.actual_hash.clear();
  {
    const std::scoped_lock lock(wheel.mutex);
    wheel.file.reset();
    wheel.content_failure.reset();
    wheel.transfer_failure.reset();
    wheel.trouble = Trouble::none;
  }
  fetch(wheel, address);
  return std::nullopt;
}

Result<void> Pipeline::ask_index(Wheel& wheel, std::string& address) {
  address = TRY_CONTEXT(wheel.source.look_up(), fmt::format("while looking for {}", wheel.source.filename));
  return {};
}

Result<Need> Pipeline::finish(Wheel& wheel) {
  const WheelSource& source = wheel.source;
  if (wheel.transfer_failure) {
    if (wheel.looked_up || !source.look_up) return base::fail(std::move(*wheel.transfer_failure));
    wheel.looked_up = true;
    return start_again(wheel);
  }
  if (wheel.actual_hash != source.sha256) {
    base::ArrivingFile::remove(m_store.part(source.sha256));
    if (++wheel.refetched < 2) return start_again(wheel);
    return base::fail(
        base::error(ErrorCode::hash_mismatch, fmt::format("{} is not what the lock promised: its SHA-256 is {}, not {}",
                                                          source.filename, wheel.actual_hash, source.sha256))
            .with_context("fetched twice from " + source.address)
            .with_hint("`trail lock --upgrade` makes a new lock, if the file was replaced on purpose"));
  }
  const auto refuse = [&](Error reason) {
    reason.message = fmt::format("{} is refused: {}", source.filename, reason.message);
    (void)base::remove_tree(m_store.staging(wheel_key(source.sha256)));
    base::ArrivingFile::remove(m_store.part(source.sha256));
    return base::fail(std::move(reason));
  };
  if (wheel.content_failure) return refuse(std::move(*wheel.content_failure));
  auto tree = finish_wheel(
      wheel.unpacking,
      {.filename = source.filename, .sha256 = source.sha256, .name = source.name, .version = source.version});
  if (!tree && is_about_content(tree.error().code)) return refuse(std::move(tree).error());
  if (!tree) return base::fail(std::move(tree).error());
  const fs::path folder = m_store.wheel(source.sha256);
  TRY(m_store.publish(wheel_key(source.sha256), folder));
  wheel.root.reset();
  wheel.unpacking = {};
  base::ArrivingFile::remove(m_store.part(source.sha256));
  give_room(wheel);
  wheel.lock.reset();
  wheel.done = true;
  if (m_options.on_tree) TRY(m_options.on_tree(source, *tree, folder));
  const std::scoped_lock lock(m_mutex);
  if (--m_left == 0) m_done.notify_all();
  return std::nullopt;
}

// ---- all wheels ----

void Pipeline::report() {
  std::uint64_t total = 0, done = 0;
  std::vector<std::string> names;
  for (const auto& wheel : m_wheels) {
    const std::scoped_lock lock(wheel->mutex);
    const std::uint64_t size = wheel->file ? wheel->file->size() : wheel->source.size;
    total += size;
    done += wheel->done ? size : wheel->file ? wheel->file->received() : 0;
    if (!wheel->done) names.push_back(wheel->source.name);
  }
  std::string detail = names.empty() ? "" : names.front();
  if (names.size() == 2) detail += " and " + names.back();
  if (names.size() > 2) detail += fmt::format(" and {} more", names.size() - 1);
  m_reporter.progress({.what = done < total ? "downloading" : "unpacking",
                       .done = done,
                       .total = total > 0 ? std::optional(total) : std::nullopt,
                       .unit = base::Unit::bytes,
                       .detail = std::move(detail)});
}

Result<void> Pipeline::wait() {
  std::unique_lock lock(m_mutex);
  while (m_left > 0 && !m_failure) {
    m_done.wait_for(lock, k_report_interval);
    lock.unlock();
    report();
    lock.lock();
  }
  m_stop = true;
  m_work.notify_all();
  if (m_failure) return base::fail(std::move(*m_failure));
  return {};
}

// Takes what is there or free to be worked on; leaves in `sources` what somebody else is working on.
Result<void> Pipeline::round(std::vector<WheelSource>& sources) {
  std::vector<WheelSource> others;
  std::vector<JobPointer> trees;
  for (WheelSource& source : sources) {
    std::optional<base::FileLock> lock;
    if (!m_store.has_wheel(source.sha256)) {
      lock = TRY(m_store.try_lock(wheel_key(source.sha256)));
      if (!lock) {
        others.push_back(std::move(source));
        continue;
      }
    }
    if (m_store.has_wheel(source.sha256)) {
      trees.push_back(std::make_unique<TreeJob>(*this, std::move(source)));
      continue;
    }
    m_wheels.push_back(std::make_unique<Wheel>());
    m_wheels.back()->source = std::move(source);
    m_wheels.back()->lock = std::move(lock);
  }
  sources = std::move(others);
  m_left = m_wheels.size() + trees.size();
  if (m_left == 0) return {};
  std::ranges::sort(m_wheels, std::greater<>(), [](const auto& wheel) { return wheel->source.size; });

  const int cpus = worker_count(m_options.workers);
  std::vector<std::jthread> workers;
  Result<void> outcome;
  {
    base::TransferOptions network = m_options.transfers;
    network.window = archive_window(cpus);
    base::Transfers transfers(network, *this);
    m_transfers = &transfers;
    for (auto& job : trees) push(std::move(job));
    for (int count = 0; count < cpus; ++count) workers.emplace_back([this] { work(); });
    for (auto& wheel : m_wheels) {
      if (!wheel->source.address.empty()) {
        fetch(*wheel, wheel->source.address);
        continue;
      }
      std::string address;
      wheel->looked_up = true;
      auto found = ask_index(*wheel, address);
      if (!found) {
        fail(std::move(found).error());
        break;
      }
      fetch(*wheel, address);
    }
    outcome = wait();
    workers.clear();  // joins: jobs use the transfers
  }
  m_ready = {};
  for (const auto& wheel : m_wheels)
    if (!wheel->done) (void)base::remove_tree(m_store.staging(wheel_key(wheel->source.sha256)));
  m_wheels.clear();
  m_by_transfer.clear();
  m_stop = false;
  return outcome;
}

Result<void> Pipeline::run(std::vector<WheelSource> sources) {
  for (;;) {
    TRY(round(sources));
    if (sources.empty()) return {};
    m_reporter.progress({.what = "waiting for another build",
                         .done = 0,
                         .total = {},
                         .unit = base::Unit::items,
                         .detail = sources.front().name});
    // Its end is what is waited for, whatever it was; the next round finds the tree, or does the work.
    (void)TRY(m_store.lock(wheel_key(sources.front().sha256)));
  }
}

}  // namespace

std::uint64_t archive_window(int workers) {
  return 512'000'000ULL * static_cast<std::uint64_t>(std::max(2, worker_count(workers)));
}

Result<void> install_wheels(const Store& store, std::vector<WheelSource> sources, const PipelineOptions& options,
                            Reporter& reporter) {
  std::ranges::sort(sources, {}, &WheelSource::sha256);
  const auto rest = std::ranges::unique(sources, {}, &WheelSource::sha256);
  sources.erase(rest.begin(), rest.end());
  return Pipeline(store, options, reporter).run(std::move(sources));
}

}  // namespace startrail::image
