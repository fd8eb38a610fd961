#include "base/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/files.hpp"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves the declaration to the program

namespace startrail::base {
namespace {

struct Pipe {
  Fd read_end;
  Fd write_end;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(errno_error("cannot create a pipe", errno));
  return Pipe{Fd(ends[0]), Fd(ends[1])};
}

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> result;
  result.reserve(words.size() + 1);
  for (auto& word : words) result.push_back(word.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_words(const std::optional<Environment>& environment) {
  std::vector<std::string> words;
  for (const auto& [key, value] : environment ? *environment : current_environment())
    words.push_back(key + "=" + value);
  return words;
}

constexpr std::size_t k_longest_line = 64U << 10U;
constexpr int k_above_standard = 3;

// Hands complete lines to the callback and keeps the rest.
class LineSplitter {
 public:
  explicit LineSplitter(const std::function<void(std::string_view)>& callback) : m_callback(callback) {}
  void feed(std::string_view data) {
    if (!m_callback) return;
    m_pending += data;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = m_pending.find('\n', begin)) != std::string::npos; begin = end + 1)
      m_callback(std::string_view(m_pending).substr(begin, end - begin));
    m_pending.erase(0, begin);
    if (m_pending.size() < k_longest_line) return;
    m_callback(m_pending);
    m_pending.clear();
  }

 private:
  const std::function<void(std::string_view)>& m_callback;
  std::string m_pending;
};

struct Child {
  pid_t pid = 0;
  Pipe input, output, errors;
};

void exec_child(Child& child, const fs::path& program, char** argv, char** envp, const char* directory, pid_t parent,
                int failure_fd) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  // Whoever closed 0 to 2 has pipes there, which one dup2 would take from the next.
  failure_fd = ::fcntl(failure_fd, F_DUPFD_CLOEXEC, k_above_standard);
  const int input = ::fcntl(child.input.read_end.get(), F_DUPFD_CLOEXEC, k_above_standard);
  const int output = ::fcntl(child.output.write_end.get(), F_DUPFD_CLOEXEC, k_above_standard);
  const int errors = ::fcntl(child.errors.write_end.get(), F_DUPFD_CLOEXEC, k_above_standard);
  const bool parent_lives = ::getppid() == parent;
  if (parent_lives && (directory == nullptr || ::chdir(directory) == 0) && ::dup2(input, 0) >= 0 &&
      ::dup2(output, 1) >= 0 && ::dup2(errors, 2) >= 0)
    ::execve(program.c_str(), argv, envp);
  const int reason = errno;
  [[maybe_unused]] const auto ignored = ::write(failure_fd, &reason, sizeof reason);
  ::_exit(127);
}

// The errno that the child wrote when it could not become the program; 0 when it did.
int failure_of(const Fd& pipe) {
  int reason = 0;
  ssize_t count = 0;
  while ((count = ::read(pipe.get(), &reason, sizeof reason)) < 0 && errno == EINTR) {
  }
  return count == sizeof reason ? reason : 0;
}

// A program that ends, or closes its input, before it has read all of it: EPIPE, and no signal that ends the caller.
ssize_t write_quietly(int pipe, std::string_view bytes) {
  sigset_t broken{}, before{};
  sigemptyset(&broken);
  sigaddset(&broken, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &broken, &before);
  const ssize_t count = ::write(pipe, bytes.data(), bytes.size());
  const int reason = errno;
  const timespec at_once{};
  if (count < 0 && reason == EPIPE) sigtimedwait(&broken, nullptr, &at_once);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  errno = reason;
  return count;
}

struct Collector {
  const Command& command;
  Child& child;
  ProcessResult& result;
  LineSplitter lines{command.on_error_line};
  std::string_view pending_input = command.input;

  void read_into(Fd& fd, bool is_error) {
    std::array<char, 65536> buffer{};
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (count <= 0) return fd.reset();
    const std::string_view data(buffer.data(), static_cast<std::size_t>(count));
    keep(is_error ? result.errors : result.output, data);
    if (is_error) lines.feed(data);
  }

  // Cut only when twice as much has come together, so that each byte is moved once at most.
  void keep(std::string& kept, std::string_view data) const {
    kept += data;
    if (command.output_limit && kept.size() > 2 * command.output_limit->count) keep_last(kept);
  }
  void keep_last(std::string& kept) const {
    if (kept.size() > command.output_limit->count) kept.erase(0, kept.size() - command.output_limit->count);
  }

  void write_input() {
    const ssize_t count = write_quietly(child.input.write_end.get(), pending_input);
    if (count > 0) pending_input.remove_prefix(static_cast<std::size_t>(count));
    if (pending_input.empty() || (count < 0 && errno != EINTR && errno != EAGAIN)) child.input.write_end.reset();
  }

  void cut_to_limit() const {
    if (!command.output_limit) return;
    keep_last(result.output);
    keep_last(result.errors);
  }

  // Pumps until both outputs are closed or the deadline has passed; false on the latter.
  bool pump() {
    const auto deadline = std::chrono::steady_clock::now() + command.timeout.value_or(std::chrono::hours(24 * 365));
    if (pending_input.empty()) child.input.write_end.reset();
    while (child.output.read_end.valid() || child.errors.read_end.valid()) {
      std::array<pollfd, 3> fds{{{child.output.read_end.get(), POLLIN, 0},
                                 {child.errors.read_end.get(), POLLIN, 0},
                                 {child.input.write_end.get(), POLLOUT, 0}}};
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
      if (left.count() <= 0) return false;
      ::poll(fds.data(), fds.size(), static_cast<int>(std::min<long long>(left.count() + 1, 1000)));
      if (fds[0].revents != 0) read_into(child.output.read_end, false);
      if (fds[1].revents != 0) read_into(child.errors.read_end, true);
      if (fds[2].revents != 0) write_input();
    }
    return true;
  }
};

}  // namespace

Environment current_environment() {
  Environment result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    if (const auto equals = text.find('='); equals != std::string_view::npos)
      result.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return result;
}

std::string variable_fault(std::string_view name, std::string_view value) {
  constexpr std::string_view k_never{"= \t\r\n\0", 6};
  if (name.empty()) return "a variable without a name";
  if (name.find_first_of(k_never) != std::string_view::npos)
    return fmt::format("`{}` is no name of a variable", name.substr(0, name.find('\0')));
  if (value.find('\0') != std::string_view::npos) return fmt::format("the value of {} holds a NUL character", name);
  return "";
}

std::optional<std::string> environment_variable(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

std::optional<fs::path> find_program(std::string_view name) {
  if (name.find('/') != std::string_view::npos) {
    if (::access(std::string(name).c_str(), X_OK) == 0) return fs::absolute(name);
    return std::nullopt;
  }
  std::string search = environment_variable("PATH").value_or("/usr/local/bin:/usr/bin:/bin");
  search += ":/usr/sbin:/sbin";
  for (std::size_t start = 0; start <= search.size();) {
    const std::size_t end = std::min(search.find(':', start), search.size());
    const fs::path candidate = fs::path(search.substr(start, end - start)) / name;
    std::error_code ignored;
    if (::access(candidate.c_str(), X_OK) == 0 && fs::is_regular_file(candidate, ignored)) return candidate;
    start = end + 1;
  }
  return std::nullopt;
}

fs::path own_program() {
  std::error_code failed;
  fs::path program = fs::read_symlink("/proc/self/exe", failed);
  if (failed || ::access(program.c_str(), X_OK) != 0) return "/proc/self/exe";
  return program;
}

Result<ProcessResult> run_process(const Command& command) {
  const auto program = find_program(command.argv.at(0));
  if (!program) return fail(ErrorCode::not_found, fmt::format("there is no program `{}` here", command.argv[0]));
  // Assigned one by one: a TRY that returns from within braces would leak the members made before it (GCC 12).
  Child child;
  child.input = TRY(make_pipe());
  child.output = TRY(make_pipe());
  child.errors = TRY(make_pipe());
  Pipe failure = TRY(make_pipe());
  auto argv_words = command.argv;
  auto environment = environment_words(command.environment);
  auto argv = pointers(argv_words);
  auto envp = pointers(environment);
  const pid_t parent = ::getpid();
  child.pid = ::fork();
  if (child.pid < 0) return fail(errno_error("cannot start a process", errno));
  if (child.pid == 0)
    exec_child(child, *program, argv.data(), envp.data(), command.directory ? command.directory->c_str() : nullptr,
               parent, failure.write_end.get());
  child.input.read_end.reset();
  child.output.write_end.reset();
  child.errors.write_end.reset();
  failure.write_end.reset();
  ::fcntl(child.input.write_end.get(), F_SETFL, O_NONBLOCK);

  ProcessResult result;
  const int reason = failure_of(failure.read_end);
  if (reason == 0) {
    Collector collector{command, child, result};
    result.timed_out = !collector.pump();
    if (result.timed_out) ::kill(-child.pid, SIGKILL);
    collector.cut_to_limit();
  }
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (reason != 0) return fail(errno_error(fmt::format("cannot run {}", command.argv[0]), reason));
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

namespace {

std::string first_line_of(const fs::path& file) {
  const auto text = read_file(file).value_or("");
  return text.substr(0, text.find('\n'));
}

}  // namespace

std::string boot_id() {
  auto text = first_line_of("/proc/sys/kernel/random/boot_id");
  return text.empty() ? "unknown" : text;
}

namespace {

struct StatFields {
  char state = '?';
  unsigned long long start_ticks = 0;
};

// The command name may hold spaces and parentheses, so fields are counted after the last ')'.
std::optional<StatFields> read_stat(pid_t pid) {
  const auto text = read_file(fmt::format("/proc/{}/stat", pid));
  if (!text) return std::nullopt;
  const auto close = text->rfind(')');
  if (close == std::string::npos || close + 2 >= text->size()) return std::nullopt;
  StatFields fields{.state = (*text)[close + 2]};
  std::size_t at = close + 2;
  for (int field = 3; field < 22; ++field) {
    at = text->find(' ', at);
    if (at == std::string::npos) return std::nullopt;
    ++at;
  }
  fields.start_ticks = std::strtoull(text->c_str() + at, nullptr, 10);
  return fields;
}

}  // namespace

ProcessPlace process_place() {
  ProcessPlace place{.machine = first_line_of("/etc/machine-id")};
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) == 0) place.host = host.data();
  struct stat status{};
  if (::stat("/proc/self/ns/pid", &status) == 0) place.pid_namespace = status.st_ino;
  return place;
}

Result<ProcessIdentity> process_identity(pid_t pid) {
  const auto fields = read_stat(pid);
  if (!fields) return fail(ErrorCode::not_found, fmt::format("there is no process {}", pid));
  return ProcessIdentity{
      .boot_id = boot_id(), .pid = pid, .start_ticks = fields->start_ticks, .place = process_place()};
}

bool is_of_here(const ProcessIdentity& identity) {
  return identity.place.host.empty() || identity.place == process_place();
}

bool is_alive(const ProcessIdentity& identity) {
  if (identity.pid <= 0 || !is_of_here(identity) || identity.boot_id != boot_id()) return false;
  const auto fields = read_stat(identity.pid);
  return fields && fields->start_ticks == identity.start_ticks && fields->state != 'Z' && fields->state != 'X';
}

std::string signal_name(int signal) {
  const char* abbreviation = ::sigabbrev_np(signal);
  return abbreviation == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", abbreviation);
}

std::string shell_quote(std::string_view word) {
  constexpr std::string_view plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:=,+@%^";
  if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos) return std::string(word);
  std::string quoted = "'";
  for (const char c : word) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

std::string shell_join(const std::vector<std::string>& words) {
  std::string line;
  for (const auto& word : words) line += (line.empty() ? "" : " ") + shell_quote(word);
  return line;
}

Result<std::vector<std::string>> shell_split(std::string_view line) {
  std::vector<std::string> words;
  std::string word;
  bool in_word = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote == '\'') {
      if (c == '\'')
        quote = 0;
      else
        word += c;
    } else if (c == '\\' && i + 1 < line.size()) {
      const char next = line[i + 1];
      const bool special = quote == 0 || std::string_view("\"\\$`\n").find(next) != std::string_view::npos;
      if (!special) word += c;
      if (next != '\n') word += next;
      in_word = in_word || next != '\n';
      ++i;
    } else if (quote == '"') {
      if (c == '"')
        quote = 0;
      else
        word += c;
    } else if (c == '\'' || c == '"') {
      quote = c;
      in_word = true;
    } else if (c == ' ' || c == '\t' || c == '\n') {
      if (in_word) words.push_back(std::exchange(word, {}));
      in_word = false;
    } else {
      word += c;
      in_word = true;
    }
  }
  if (quote != 0) return fail(ErrorCode::invalid_input, fmt::format("`{}` has an open quote", line));
  if (in_word) words.push_back(word);
  return words;
}

}  // namespace startrail::base
