// `trail ssh`, and what the user's own ssh starts as its ProxyCommand.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "app/instances.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "image/instance_layer.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{
    .name = "ssh",
    .arguments = "[NAME] [--] [COMMAND...]",
    .summary = "Log in to an instance that is up, or run a command there, by ssh.",
    .examples =
        "  trail ssh                That of the present folder\n"
        "  trail ssh lab\n"
        "  trail ssh lab -- nvidia-smi\n",
    .notes =
        "`ssh NAME` does the same, and so do scp, sftp, rsync and editors: `trail up` puts a line\n"
        "into ~/.ssh/config for them. This command works without it.\n"};

constexpr int k_no_connection = 255;  // ssh(1): what it exits with itself
constexpr int k_not_found = 127;

Error no_client(const std::string& name) {
  return base::error(ErrorCode::not_found, "ssh is not installed here")
      .with_hint("sudo apt install openssh-client")
      .with_hint(fmt::format("or do without it: trail exec -t {} -- sh", name));
}

Result<void> become_ssh(const app::Installation& installation, const std::string& name,
                        const std::vector<std::string>& command) {
  const auto record = TRY(instance::read_record(installation.paths, name));
  TRY(app::connect(installation.paths, name));
  if (!record.has_ssh)
    return fail(base::error(ErrorCode::unsupported, fmt::format("{} has no SSH server", name))
                    .with_hint(fmt::format("do without it: trail exec -t {} -- sh", name)));
  std::vector<std::string> arguments{"ssh", "-F", instance::client_configuration_file(installation.paths).string(),
                                     name};
  arguments.insert(arguments.end(), command.begin(), command.end());
  std::vector<char*> pointers;
  for (auto& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execvp("ssh", pointers.data());
  if (errno == ENOENT) return fail(no_client(name));
  return fail(base::errno_error("cannot start ssh", errno));
}

Result<int> serve_client(const base::StatePaths& paths, const std::string& name) {
  const auto connection = TRY(app::connect(paths, name));
  const instance::Call server{.command = {fmt::format("/{}", image::k_ssh_server), "-i", "-e", "-f",
                                          fmt::format("{}/sshd_config", instance::k_server_folder)},
                              .directory = "/",
                              .streams = init::ServiceStreams::without_errors};
  const int status = TRY(instance::call_and_wait(connection, server, std::array{STDIN_FILENO, STDOUT_FILENO}));
  if (WIFEXITED(status) && WEXITSTATUS(status) == k_not_found)
    return fail(base::error(ErrorCode::unsupported, fmt::format("{} has no SSH server", name))
                    .with_hint(fmt::format("do without it: trail exec -t {} -- sh", name)));
  return WIFEXITED(status) ? WEXITSTATUS(status) : k_no_connection;
}

}  // namespace

int ssh_command(Words words) {
  std::vector<std::string> given;
  CommandLine line(k_manual);
  line.command(given);
  if (const auto leave = parse_or_leave(line, words)) return *leave;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), Format::text);
  // `trail ssh -- command` means the present folder's instance.
  std::optional<std::string> named;
  const bool begins_with_command = !words.empty() && words.front() == "--";
  if (!given.empty() && !begins_with_command) {
    named = given.front();
    given.erase(given.begin());
  }
  if (!given.empty() && given.front() == "--") given.erase(given.begin());
  const auto name = app::instance_name(*installation, named);
  if (!name) return report(name.error(), Format::text);
  const auto failed = become_ssh(*installation, *name, given);
  return report(failed.error(), Format::text);
}

int ssh_proxy_command(Words words) {
  if (words.size() != 2)
    return report(base::error(ErrorCode::usage, "`trail ssh-proxy` is started by ssh, with two arguments"),
                  Format::text);
  if (const auto good = instance::check_name(words[1]); !good) return report(good.error(), Format::text);
  const auto code = serve_client({words[0]}, words[1]);
  if (code) return *code;
  [[maybe_unused]] const int told = report(code.error(), Format::text);
  return k_no_connection;
}

}  // namespace startrail::cli
