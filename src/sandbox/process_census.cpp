#include "sandbox/process_census.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <cstdlib>
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

// "Pss:  1234 kB" of smaps_rollup; 0 where it may not be read.
std::uint64_t proportional(const base::Fd& proc, const std::string& process) {
  const std::string text = read_small(proc, process + "/smaps_rollup");
  const std::size_t at = text.find("\nPss:");
  return at == std::string::npos ? 0 : std::strtoull(text.c_str() + at + 5, nullptr, 10) * 1024;
}

}  // namespace

Result<ProcessCensus> ProcessCensus::of_container(pid_t init) {
  return ProcessCensus(TRY(base::open_file(fmt::format("/proc/{}/root/proc", init), O_RDONLY | O_DIRECTORY)));
}

int ProcessCensus::count() const {
  return static_cast<int>(process_names(m_proc).size());
}

Bytes ProcessCensus::memory(std::optional<Bytes> near) {
  constexpr auto k_weigh_every = std::chrono::seconds(10);
  const auto names = process_names(m_proc);
  std::uint64_t sum = 0;
  for (const auto& name : names) sum += resident(m_proc, name);
  const auto now = std::chrono::steady_clock::now();
  const bool close = near && static_cast<double>(sum) * m_shared_factor > static_cast<double>(near->count);
  if (sum != 0 && (close || now - m_weighed > k_weigh_every)) {
    std::uint64_t weighed = 0;
    for (const auto& name : names) {
      const auto part = proportional(m_proc, name);
      weighed += part != 0 ? part : resident(m_proc, name);
    }
    m_shared_factor = std::min(1.0, static_cast<double>(weighed) / static_cast<double>(sum));
    m_weighed = now;
  }
  return {static_cast<std::uint64_t>(static_cast<double>(sum) * m_shared_factor)};
}

}  // namespace startrail::sandbox
