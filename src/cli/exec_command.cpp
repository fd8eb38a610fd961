#include <fmt/format.h>
#include <sys/wait.h>

#include "app/instances.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "instance/attached.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "exec",
                          .arguments = "[OPTIONS] NAME [--] COMMAND...",
                          .summary = "Run a command in an instance that is up.",
                          .examples =
                              "  trail exec lab -- python -c 'import torch'\n"
                              "  trail exec -t lab -- bash              On a terminal\n"
                              "  trail exec lab -- tar -c . > code.tar  Input and output are this command's\n",
                          .notes = "Exit code: the command's own (128 + signal), 125 when it could not be started.\n"};

constexpr int k_exit_could_not_start = 125;
constexpr int k_signal_base = 128;

struct Options {
  bool terminal = false;
  bool input = true;  // always so; the flag is for hands that are used to it
  std::optional<std::string> directory;
  std::vector<std::string> environment, words;
};

// The name is the first word, so that the command's own options needn't be set apart.
Result<instance::Call> call_of(const Options& options, const base::Environment& caller) {
  std::vector<std::string> command(options.words.begin() + (options.words.empty() ? 0 : 1), options.words.end());
  if (!command.empty() && command.front() == "--") command.erase(command.begin());
  if (command.empty())
    return fail(base::error(ErrorCode::usage, "`trail exec` needs an instance and a command")
                    .with_hint("for example: trail exec -t NAME -- bash"));
  instance::Call call{.command = std::move(command), .directory = options.directory.value_or("")};
  for (const auto& text : options.environment) TRY(app::add_environment(call.variables, text, caller));
  if (!options.terminal) return call;
  call.streams = init::ServiceStreams::terminal_of_ours;
  for (const char* name : {"TERM", "COLORTERM"})
    if (const auto value = caller.find(name); value != caller.end()) call.variables.insert(*value);
  return call;
}

int refuse(const Error& error) {
  const int code = report(error, Format::text);
  return error.code == ErrorCode::usage ? code : k_exit_could_not_start;
}

}  // namespace

int exec_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  line.flag("-t,--terminal", options.terminal, "Give it a terminal, this one");
  line.flag("-i,--interactive", options.input, "Pass input on, which is done in any case");
  line.value("-w,--workdir", options.directory, "DIR", "Start there instead of in /workspace");
  line.values("-e,--env", options.environment, "K[=V]", "Set a variable, or pass on the shell's own");
  line.command(options.words);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const auto installation = app::find_installation();
  if (!installation) return refuse(installation.error());
  const auto call = call_of(options, installation->environment);
  if (!call) return refuse(call.error());
  const std::string& name = options.words.front();
  if (const auto good = instance::check_name(name); !good) return refuse(good.error());
  const auto connection = app::connect(installation->paths, name);
  if (!connection) return refuse(connection.error());
  const auto status = instance::run_attached(*connection, *call);
  if (!status) return refuse(status.error());
  return WIFSIGNALED(*status) ? k_signal_base + WTERMSIG(*status) : WEXITSTATUS(*status);
}

}  // namespace startrail::cli
