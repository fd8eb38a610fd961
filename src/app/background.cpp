#include "app/background.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <string_view>
#include <thread>
#include <vector>

#include "base/files.hpp"

namespace startrail::app {
namespace {

// ioprio_set(2): class in the upper bits; IOPRIO_CLASS_IDLE is 3, and has no header in glibc.
constexpr int k_ioprio_who_process = 1;
constexpr int k_ioprio_idle = 3 << 13;

void become_idle() {
  ::setsid();
  ::setpriority(PRIO_PROCESS, 0, 19);
  const sched_param none{};
  ::sched_setscheduler(0, SCHED_IDLE, &none);
  ::syscall(SYS_ioprio_set, k_ioprio_who_process, 0, k_ioprio_idle);
  const int null = ::open("/dev/null", O_RDWR);
  for (const int fd : {0, 1, 2}) ::dup2(null, fd);
}

// About as long as importing a framework and a first step take without bytecode.
constexpr std::chrono::seconds k_first_steps{15};

void start_idle(const fs::path& program, const std::array<const char*, 5>& words) {
  const pid_t child = ::fork();
  if (child != 0) return;
  become_idle();
  ::execv(program.c_str(), const_cast<char* const*>(words.data()));  // NOLINT: execv(3) does not write to them
  ::_exit(127);
}

// The last KillUserProcesses= that logind would read: main file first, then drop-ins in name order.
std::optional<bool> kills_user_processes(const fs::path& root) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const char* folder : {"usr/lib/systemd/logind.conf.d", "etc/systemd/logind.conf.d"})
    for (const auto& entry : fs::directory_iterator(root / folder, ignored)) files.push_back(entry.path());
  std::ranges::sort(files, {}, [](const fs::path& file) { return file.filename(); });
  files.insert(files.begin(), root / "etc/systemd/logind.conf");
  std::optional<bool> found;
  for (const auto& file : files) {
    const auto text = base::read_file(file);
    if (!text) continue;
    constexpr std::string_view key = "\nKillUserProcesses=";
    const std::string lines = "\n" + *text;
    if (const auto at = lines.rfind(key); at != std::string::npos) {
      const char first = lines.c_str()[at + key.size()];
      found = first == 'y' || first == 't' || first == '1' || first == 'o';
    }
  }
  return found;
}

}  // namespace

void compile_bytecode_in_background(const Installation& installation, const image::Image& image, Begin begin) {
  if (!image::wants_background_work(image, installation.paths.store())) return;
  const std::string id = image.id;
  const std::string delay = fmt::format("{}", begin == Begin::at_once ? 0 : k_first_steps.count());
  start_idle(installation.program, {"trail", "bytecode", id.c_str(), delay.c_str(), nullptr});
}

Result<void> compile_bytecode(const Installation& installation, const std::string& image_id,
                              std::chrono::seconds delay) {
  std::this_thread::sleep_for(delay);
  const auto image = TRY(image::open(installation.paths.store(), image_id));
  const auto machine = machine::survey(installation.host, installation.paths.root, machine::Depth::quick);
  base::SilentReporter silent;
  return image::compile_bytecode(image, installation.paths.store(), machine, silent);
}

std::optional<std::string> ends_with_logout(const Installation& installation, const fs::path& root) {
  std::error_code ignored;
  if (::geteuid() == 0 || !kills_user_processes(root).value_or(false)) return std::nullopt;
  if (fs::exists(root / "var/lib/systemd/linger" / installation.user, ignored)) return std::nullopt;
  return fmt::format(
      "this machine ends your processes when you log out, and this run with them; to keep it: loginctl enable-linger "
      "{}",
      installation.user);
}

}  // namespace startrail::app
