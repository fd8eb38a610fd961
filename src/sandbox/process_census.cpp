#include "sandbox/process_census.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace startrail::sandbox {
namespace {

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

std::vector<std::string> process_names(const base::Fd& proc) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, CloseDirectory> stream(
      ::fdopendir(::openat(proc.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)));
  if (!stream) return names;
  while (const dirent* entry = ::readdir(stream.get())) {
    if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9') names.emplace_back(entry->d_name);
  }
  return names;
}

std::string read_small(const base::Fd& proc, const std::string& name) {
  std::array<char, 2048> buffer{};
  const base::Fd fd(::openat(proc.get(), name.c_str(), O_RDONLY | O_CLOEXEC));
  const ssize_t size = fd.valid() ? ::read(fd.get(), buffer.data(), buffer.size()) : 0;
  return {buffer.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

// Field 2 of statm, in pages (proc(5)).
std::uint64_t resident(const base::Fd& proc, const std::string& process) {
  static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  const std::string text = read_small(proc, process + "/statm");
  const std::size_t space = text.find(' ');
  return space == std::string::npos ? 0 : std::strtoull(text.c_str() + space, nullptr, 10) * page;
}

// "Pss:  1234 kB" of smaps_rollup; 0 where it is missing.
std::uint64_t kibibytes_of(const std::string& text, const char* line) {
  const std::size_t at = text.find(line);
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + std::strlen(line), nullptr, 10) * 1024;
}

// A process's fair part of the memory that it has mapped; what of it belongs to files in memory (Linux 5.4).
struct Share {
  std::uint64_t all = 0, in_files = 0;
};

Share share_of(const base::Fd& proc, const std::string& process) {
  const std::string text = read_small(proc, process + "/smaps_rollup");
  const Share share{.all = kibibytes_of(text, "\nPss:"), .in_files = kibibytes_of(text, "\nPss_Shmem:")};
  return share.all != 0 ? share : Share{.all = resident(proc, process)};  // it may not be read
}

// Mapped files in memory are among `files` already, unless they have no name there (shared anonymous memory).
std::uint64_t weighed_sum(const base::Fd& proc, const std::vector<std::string>& processes, std::uint64_t files) {
  Share sum;
  for (const auto& process : processes) {
    const Share share = share_of(proc, process);
    sum.all += share.all;
    sum.in_files += share.in_files;
  }
  return sum.all - std::min(sum.all, sum.in_files) + std::max(sum.in_files, files);
}

}  // namespace

Result<ProcessCensus> ProcessCensus::of_container(pid_t init) {
  return ProcessCensus(TRY(base::open_file(fmt::format("/proc/{}/root/proc", init), O_RDONLY | O_DIRECTORY)));
}

int ProcessCensus::count() const {
  return static_cast<int>(process_names(m_proc).size());
}

Bytes ProcessCensus::memory(std::optional<Bytes> near, Bytes files) {
  constexpr auto k_weigh_every = std::chrono::seconds(10);
  const auto names = process_names(m_proc);
  std::uint64_t sum = files.count;
  for (const auto& name : names) sum += resident(m_proc, name);
  const auto now = std::chrono::steady_clock::now();
  const bool close = near && static_cast<double>(sum) * m_shared_factor > static_cast<double>(near->count);
  if (sum != 0 && (close || now - m_weighed > k_weigh_every)) {
    const auto weighed = static_cast<double>(weighed_sum(m_proc, names, files.count));
    m_shared_factor = std::min(1.0, weighed / static_cast<double>(sum));
    m_weighed = now;
  }
  return {static_cast<std::uint64_t>(static_cast<double>(sum) * m_shared_factor)};
}

}  // namespace startrail::sandbox
