#include "base/process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
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

// Hands complete lines to the callback and keeps the rest.
class LineSplitter {
 public:
  explicit LineSplitter(const std::function<void(std::string_view)>& callback) : m_callback(callback) {}
  void feed(std::string_view data) {
    if (!m_callback) return;
    m_pending += data;
    for (std::size_t end = 0; (end = m_pending.find('\n')) != std::string::npos; m_pending.erase(0, end + 1))
      m_callback(std::string_view(m_pending).substr(0, end));
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
  const bool parent_lives = ::getppid() == parent;
  if (parent_lives && (directory == nullptr || ::chdir(directory) == 0) && ::dup2(child.input.read_end.get(), 0) >= 0 &&
      ::dup2(child.output.write_end.get(), 1) >= 0 && ::dup2(child.errors.write_end.get(), 2) >= 0)
    ::execve(program.c_str(), argv, envp);
  const int reason = errno;
  [[maybe_unused]] const auto ignored = ::write(failure_fd, &reason, sizeof reason);
  ::_exit(127);
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
    (is_error ? result.errors : result.output) += data;
    if (is_error) lines.feed(data);
  }

  void write_input() {
    const ssize_t count = ::write(child.input.write_end.get(), pending_input.data(), pending_input.size());
    if (count > 0) pending_input.remove_prefix(static_cast<std::size_t>(count));
    if (pending_input.empty() || (count < 0 && errno != EINTR && errno != EAGAIN)) child.input.write_end.reset();
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
  int reason = 0;
  const bool exec_failed = ::read(failure.read_end.get(), &reason, sizeof reason) == sizeof reason;
  if (!exec_failed && !Collector{command, child, result}.pump()) {
    result.timed_out = true;
    ::kill(-child.pid, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (exec_failed) return fail(errno_error(fmt::format("cannot run {}", command.argv[0]), reason));
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

std::string boot_id() {
  auto text = read_file("/proc/sys/kernel/random/boot_id").value_or("unknown");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
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

Result<ProcessIdentity> process_identity(pid_t pid) {
  const auto fields = read_stat(pid);
  if (!fields) return fail(ErrorCode::not_found, fmt::format("there is no process {}", pid));
  return ProcessIdentity{.boot_id = boot_id(), .pid = pid, .start_ticks = fields->start_ticks};
}

bool is_alive(const ProcessIdentity& identity) {
  if (identity.pid <= 0 || identity.boot_id != boot_id()) return false;
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
