#include "run/snapshot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "base/files.hpp"
#include "run/beneath.hpp"
#include "run/snapshot_digests.hpp"
#include "run/snapshot_listing.hpp"
#include "run/snapshot_manifest.hpp"
#include "run/snapshot_objects.hpp"

namespace startrail::run {
namespace {

constexpr std::size_t k_most_named_omissions = 200;
constexpr unsigned k_most_workers = 8;
constexpr std::size_t k_files_per_worker = 16;  // fewer aren't worth a thread

// What the walk found; small enough to sort by size.
struct Candidate {
  std::string path;
  FileStamp stamp;
  bool executable = false;
  std::string sha256;                // known from before, or found by a worker
  std::optional<std::string> fault;  // why it can't be in the snapshot
};

bool is_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const std::size_t length = lead < 0x80                   ? 1
                               : lead >= 0xc2 && lead < 0xe0 ? 2
                               : lead >= 0xe0 && lead < 0xf0 ? 3
                               : lead >= 0xf0 && lead < 0xf5 ? 4
                                                             : 0;
    if (length == 0 || i + length > text.size()) return false;
    for (std::size_t k = 1; k < length; ++k)
      if ((static_cast<unsigned char>(text[i + k]) & 0xc0U) != 0x80U) return false;
    i += length;
  }
  return true;
}

std::string printable(std::string_view name) {
  std::string shown;
  for (const char c : name) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte >= 0x7f) {
      fmt::format_to(std::back_inserter(shown), "\\x{:02x}", byte);
    } else {
      shown += c;
    }
  }
  return shown;
}

std::string reason_of(int error_number) {
  if (error_number == ELOOP) return "behind a symbolic link";
  if (error_number == EACCES || error_number == EPERM) return "permission denied";
  return std::strerror(error_number);
}

// One snapshot being taken.
class Taking {
 public:
  Taking(fs::path folder, const fs::path& snapshots, const SnapshotLimits& limits)
      : m_folder(std::move(folder)),
        m_snapshots(snapshots),
        m_limits(limits),
        m_objects(snapshots),
        m_digests(snapshots, m_folder) {}

  Result<Snapshot> run() {
    m_beneath.emplace(TRY(Beneath::open(m_folder)));
    const Listing listing = TRY(list_files(m_folder));
    for (const auto& path : listing.paths) consider(path);
    for (const auto& omission : listing.omitted) m_omissions.push_back(omission);
    drop_what_is_too_much();
    TRY(add_contents());
    return finish();
  }

 private:
  void omit(const std::string& path, std::string_view reason) {
    m_omissions.push_back(fmt::format("{} ({})", path, reason));
  }
  void omit(const std::string& path, Bytes size, std::string_view reason) {
    omit(path, fmt::format("{}: {}", base::to_binary_text(size), reason));
  }

  // Sorts one path into link, candidate, omission, or nothing (a tracked file that was deleted).
  void consider(const std::string& path) {
    const auto status = m_beneath->look_at(path);
    if (!status && (status.error() == ENOENT || status.error() == ENOTDIR)) return;
    if (!is_utf8(path)) return omit(printable(path), "its name is not UTF-8");
    if (!status) return omit(path, reason_of(status.error()));
    const Bytes size{static_cast<std::uint64_t>(status->st_size)};
    if (S_ISLNK(status->st_mode)) return add_link(path);
    if (!S_ISREG(status->st_mode)) return omit(path, "not a regular file");
    if (size > m_limits.per_file)
      return omit(path, size, fmt::format("over the {} file cap", base::to_binary_text(m_limits.per_file)));
    m_candidates.push_back({.path = path, .stamp = stamp_of(*status), .executable = (status->st_mode & S_IXUSR) != 0});
  }

  void add_link(const std::string& path) {
    auto target = m_beneath->target_of(path);
    if (!target) return omit(path, reason_of(target.error()));
    if (!is_utf8(*target)) return omit(path, "its target is not UTF-8");
    m_manifest.entries.push_back({.path = path, .kind = Manifest::Kind::link, .target = std::move(*target)});
  }

  // Small files first: code before data.
  void drop_what_is_too_much() {
    std::ranges::stable_sort(m_candidates, {}, [](const Candidate& candidate) { return candidate.stamp.size; });
    std::uint64_t total = 0;
    const auto first_too_much = std::ranges::find_if(m_candidates, [&](const Candidate& candidate) {
      total += candidate.stamp.size;
      return total > m_limits.total.count;
    });
    for (auto dropped = first_too_much; dropped != m_candidates.end(); ++dropped)
      omit(dropped->path, {dropped->stamp.size},
           fmt::format("over the {} cap of the whole snapshot", base::to_binary_text(m_limits.total)));
    m_candidates.erase(first_too_much, m_candidates.end());
  }

  Result<void> add_contents() {
    std::vector<Candidate*> unknown;
    for (auto& candidate : m_candidates) {
      candidate.sha256 = m_digests.find(candidate.path, candidate.stamp).value_or("");
      if (candidate.sha256.empty() || !m_objects.contains(candidate.sha256)) unknown.push_back(&candidate);
    }
    const std::size_t wanted = std::min<std::size_t>(
        {std::max(std::thread::hardware_concurrency(), 1U), k_most_workers, unknown.size() / k_files_per_worker + 1});
    std::atomic<std::size_t> next = 0;
    std::vector<std::optional<Error>> failures(wanted);
    const auto work = [&](std::size_t worker) {
      auto beneath = Beneath::open(m_folder);
      if (!beneath) failures[worker] = std::move(beneath).error();
      for (std::size_t i = 0; !failures[worker] && (i = next++) < unknown.size();)
        failures[worker] = add_content(*beneath, *unknown[i]);
    };
    {
      std::vector<std::jthread> workers;
      for (std::size_t worker = 1; worker < wanted; ++worker) workers.emplace_back(work, worker);
      work(0);
    }
    for (auto& failure : failures)
      if (failure) return fail(std::move(*failure));
    return {};
  }

  // A fault of the file is an omission; a fault of our store (a full disk) is the snapshot's.
  [[nodiscard]] std::optional<Error> add_content(Beneath& beneath, Candidate& candidate) const {
    const auto file = beneath.open_file(candidate.path);
    if (!file) {
      candidate.fault = reason_of(file.error());
      return std::nullopt;
    }
    auto added = m_objects.add(file->get(), m_folder / candidate.path, m_limits.per_file);
    if (added) {
      candidate.sha256 = std::move(added->sha256);
      candidate.stamp.size = added->size.count;
      return std::nullopt;
    }
    if (added.error().code == ErrorCode::no_space ||
        added.error().message.find(m_snapshots.string()) != std::string::npos)
      return std::move(added).error();
    candidate.fault = added.error().message;
    return std::nullopt;
  }

  Result<Snapshot> finish() {
    for (auto& candidate : m_candidates) {
      if (candidate.fault) {
        omit(candidate.path, {candidate.stamp.size}, *candidate.fault);
        continue;
      }
      m_digests.remember(candidate.path, candidate.stamp, candidate.sha256);
      m_manifest.entries.push_back({.path = std::move(candidate.path),
                                    .kind = candidate.executable ? Manifest::Kind::executable : Manifest::Kind::file,
                                    .sha256 = std::move(candidate.sha256),
                                    .size = {candidate.stamp.size}});
    }
    std::ranges::sort(m_manifest.entries, {}, &Manifest::Entry::path);
    std::ranges::sort(m_omissions);
    if (m_omissions.size() > k_most_named_omissions) {
      const std::string rest = fmt::format("and {} more", m_omissions.size() - k_most_named_omissions);
      m_omissions.resize(k_most_named_omissions);
      m_omissions.push_back(rest);
    }
    m_manifest.omitted = std::move(m_omissions);
    Snapshot snapshot{.id = TRY(write_manifest(m_snapshots, m_manifest)),
                      .files = m_manifest.entries.size(),
                      .size = m_manifest.size(),
                      .omitted = m_manifest.omitted};
    m_digests.save();
    return snapshot;
  }

  fs::path m_folder;
  std::optional<Beneath> m_beneath;
  const fs::path& m_snapshots;
  const SnapshotLimits& m_limits;
  SnapshotObjects m_objects;
  SnapshotDigests m_digests;
  std::vector<Candidate> m_candidates;
  std::vector<std::string> m_omissions;
  Manifest m_manifest;
};

Result<void> check_empty(const fs::path& folder) {
  std::error_code failed;
  if (fs::is_empty(folder, failed) && !failed) return {};
  return fail(base::error(ErrorCode::conflict, fmt::format("{} is not an empty folder", folder.string()))
                  .with_hint("name a new folder for the snapshot"));
}

}  // namespace

Result<Snapshot> take_snapshot(const fs::path& folder, const fs::path& snapshots, const SnapshotLimits& limits) {
  TRY(base::make_directories(snapshots, 0700));
  return Taking(fs::absolute(folder).lexically_normal(), snapshots, limits).run();
}

// Links come last, so that no file is ever written through one.
Result<void> restore_snapshot(const fs::path& snapshots, const std::string& id, const fs::path& into) {
  const Manifest manifest = TRY(read_manifest(snapshots, id));
  const SnapshotObjects objects(snapshots);
  TRY(base::make_directories(into));
  TRY(check_empty(into));
  for (const auto& entry : manifest.entries) {
    TRY(base::make_directories((into / entry.path).parent_path()));
    if (entry.kind == Manifest::Kind::link) continue;
    TRY(objects.extract(entry.sha256, into / entry.path, entry.kind == Manifest::Kind::executable ? 0755 : 0644));
  }
  for (const auto& entry : manifest.entries)
    if (entry.kind == Manifest::Kind::link && ::symlink(entry.target.c_str(), (into / entry.path).c_str()) != 0)
      return fail(base::errno_error(fmt::format("cannot create {}", (into / entry.path).string()), errno));
  return {};
}

}  // namespace startrail::run
