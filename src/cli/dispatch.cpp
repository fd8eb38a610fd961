#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "build_configuration.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace startrail::cli {
namespace {

constexpr std::array k_commands{
    Command{"run", "Run a command in the project's environment", Group::daily, run_command},
    Command{"lock", "Choose and lock what the project needs", Group::daily, lock_command},
    Command{"up", "Start an instance of the project to work in", Group::daily, up_command},
    Command{"down", "Stop an instance, and keep what was changed in it", Group::daily, down_command},
    Command{"ssh", "Log in to an instance", Group::daily, ssh_command},
    Command{"exec", "Run a command in an instance", Group::daily, exec_command},
    Command{"rm", "Remove an instance and what was changed in it", Group::daily, rm_command},
    Command{"ps", "List instances and runs", Group::daily, ps_command},
    Command{"logs", "Show what a run printed", Group::daily, logs_command},
    Command{"stop", "Stop runs", Group::daily, stop_command},
    Command{"wait", "Wait for a run's end", Group::daily, wait_command},
    Command{"inspect", "Tell a run's story", Group::daily, inspect_command},
    Command{"rerun", "Run again from a run's record", Group::daily, rerun_command},
    Command{"diff", "Show what differed between two runs", Group::daily, diff_command},
    Command{"doctor", "Find the cause behind an error", Group::daily, doctor_command},
    Command{"image", "Build, list and remove images", Group::manage, image_command},
    Command{"catalog", "Show combinations, and what would be chosen", Group::manage, catalog_command},
    Command{"supervise", "", Group::hidden, supervise_command},
    Command{"contain", "", Group::hidden, contain_command},
    Command{"bytecode", "", Group::hidden, bytecode_command},
    Command{"ssh-proxy", "", Group::hidden, ssh_proxy_command},
};

constexpr std::array k_image_commands{
    Command{"build", "Make the image of a project or a lock", Group::manage, image_build_command},
    Command{"list", "List the images that are here", Group::manage, image_list_command},
    Command{"inspect", "Show what an image is made of", Group::manage, image_inspect_command},
    Command{"save", "Write an image to a file", Group::manage, image_save_command},
    Command{"load", "Take an image from a file", Group::manage, image_load_command},
    Command{"import", "Make an image of a root filesystem", Group::manage, image_import_command},
    Command{"push", "Copy an image into a registry", Group::manage, image_push_command},
    Command{"pull", "Copy an image from a registry", Group::manage, image_pull_command},
    Command{"du", "Show what images take of the disk, and share", Group::manage, image_du_command},
    Command{"prune", "Remove images that are no longer used", Group::manage, image_prune_command},
    Command{"verify", "Check that an image does what it promises", Group::manage, image_verify_command},
    Command{"verify-store", "Check every stored file against its hash", Group::manage, image_verify_store_command},
};

constexpr std::array k_catalog_commands{
    Command{"list", "List the combinations", Group::manage, catalog_list_command},
    Command{"show", "Show everything that is known of one", Group::manage, catalog_show_command},
    Command{"choose", "Show what `run` would choose, and why", Group::manage, catalog_choose_command},
    Command{"check", "Check the catalog's facts", Group::manage, catalog_check_command},
};

std::string list_of(std::span<const Command> listed, Group group) {
  std::string text;
  for (const auto& command : listed)
    if (command.group == group) text += fmt::format("  {:<14}{}\n", command.name, command.summary);
  return text;
}

std::string overview() {
  return fmt::format(
      "Runs training code on the GPUs you have: finds what it needs, locks it, isolates it, records it.\n"
      "\nUsage: trail COMMAND [OPTIONS]\n"
      "\nExamples:\n"
      "  trail run -- python train.py    Train in the present folder\n"
      "  trail run -d -- python train.py Train in the background\n"
      "  trail logs -f                   Watch the latest run\n"
      "\nCommands:\n{}\nManagement commands:\n{}"
      "\nOptions:\n"
      "  -h, --help      Show this help\n"
      "  -V, --version   Show the version\n"
      "\n`trail help COMMAND` shows a command's options.\n",
      list_of(k_commands, Group::daily), list_of(k_commands, Group::manage));
}

std::string image_overview() {
  return fmt::format(
      "Build, list and remove images.\n"
      "\nUsage: trail image COMMAND [OPTIONS]\n"
      "\nExamples:\n"
      "  trail image build                Make the image of the present folder\n"
      "  trail image list                 See what is here, and its size\n"
      "  trail image prune --unused 30d   Make room\n"
      "\nCommands:\n{}\n`trail help image COMMAND` shows a command's options.\n",
      list_of(k_image_commands, Group::manage));
}

std::string catalog_overview() {
  return fmt::format(
      "Show which framework, CUDA and Python go together, and what would be chosen.\n"
      "\nUsage: trail catalog COMMAND [OPTIONS]\n"
      "\nExamples:\n"
      "  trail catalog list               See all combinations\n"
      "  trail catalog show pytorch:2.6   See one, and where each fact was read\n"
      "  trail catalog choose --explain   See what the present folder would get, and why\n"
      "\nCommands:\n{}\n`trail help catalog COMMAND` shows a command's options.\n",
      list_of(k_catalog_commands, Group::manage));
}

const Command* find(std::span<const Command> among, std::string_view name) {
  const auto found = std::ranges::find(among, name, &Command::name);
  return found == among.end() ? nullptr : &*found;
}

int unknown(std::span<const Command> among, const std::string& word, std::string_view prefix, Words words) {
  const bool is_option = word.starts_with('-');
  Error reason = base::error(
      ErrorCode::usage, fmt::format("`{}{}` has no {} `{}`", "trail", prefix, is_option ? "option" : "command", word));
  std::vector<std::string> names;
  for (const auto& command : among)
    if (command.group != Group::hidden) names.emplace_back(command.name);
  if (is_option) names = {"--help", "--version"};
  if (auto near = nearest(word, names)) reason.with_hint(fmt::format("did you mean `trail{} {}`?", prefix, *near));
  reason.with_hint(fmt::format("see `trail{} --help`", prefix));
  return report(reason, format_asked(words));
}

bool is_help(const std::string& word) {
  return word == "--help" || word == "-h";
}

int help(Words words);

int dispatch_among(std::span<const Command> among, std::string_view prefix, std::string (*overview_of)(), Words words) {
  if (words.empty()) {
    std::string text = overview_of();
    text.pop_back();
    say(text);
    return base::exit_code(ErrorCode::usage);
  }
  if (is_help(words.front())) {
    print(overview_of());
    return 0;
  }
  if (const Command* command = find(among, words.front())) return command->run(words.subspan(1));
  return unknown(among, words.front(), prefix, words);
}

int help(Words words) {
  static const std::vector<std::string> s_help{"--help"};
  if (words.empty()) return dispatch_among(k_commands, "", overview, s_help);
  auto among = commands();
  std::string prefix;
  for (const auto& [noun, group] : {std::pair{"image", image_commands()}, {"catalog", catalog_commands()}})
    if (words.front() == noun && words.size() > 1) {
      among = group;
      prefix = fmt::format(" {}", noun);
      words = words.subspan(1);
      break;
    }
  if (const Command* command = find(among, words.front())) return command->run(s_help);
  return unknown(among, words.front(), prefix, words);
}

}  // namespace

std::span<const Command> commands() {
  return k_commands;
}
std::span<const Command> catalog_commands() {
  return k_catalog_commands;
}
std::span<const Command> image_commands() {
  return k_image_commands;
}

int image_command(Words words) {
  return dispatch_among(k_image_commands, " image", image_overview, words);
}

int catalog_command(Words words) {
  return dispatch_among(k_catalog_commands, " catalog", catalog_overview, words);
}

int dispatch(Words words) {
  if (!words.empty() && (words.front() == "--version" || words.front() == "-V")) {
    print(fmt::format("trail {}\n", k_version));
    return 0;
  }
  if (!words.empty() && words.front() == "help") return help(words.subspan(1));
  return dispatch_among(k_commands, "", overview, words);
}

std::optional<int> parse_or_leave(CommandLine& line, Words words) {
  const auto parsed = line.parse(words);
  if (!parsed) return report(parsed.error(), format_asked(words));
  if (*parsed == CommandLine::Parsed::ready) return std::nullopt;
  print(line.help());
  return 0;
}

}  // namespace startrail::cli
