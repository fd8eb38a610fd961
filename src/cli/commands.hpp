// Every command of the program, one file each.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cli/command_line.hpp"

namespace startrail::cli {

// What follows a command's name on the command line.
using Words = std::span<const std::string>;

enum class Group { daily, manage, hidden };

struct Command {
  std::string_view name;
  std::string_view summary;
  Group group;
  int (*run)(Words words);  // returns the exit code
};
[[nodiscard]] std::span<const Command> commands();
[[nodiscard]] std::span<const Command> image_commands();
[[nodiscard]] std::span<const Command> catalog_commands();

// The command `words` begin with, run; errors and help as well. The body of main.
[[nodiscard]] int dispatch(Words words);

// Help that was asked for is printed, a usage error is told: then the exit code. nullopt: the options are filled.
[[nodiscard]] std::optional<int> parse_or_leave(CommandLine& line, Words words);

int run_command(Words words);
int up_command(Words words);
int down_command(Words words);
int ssh_command(Words words);
int exec_command(Words words);
int rm_command(Words words);
int lock_command(Words words);
int doctor_command(Words words);
int ps_command(Words words);
int logs_command(Words words);
int stop_command(Words words);
int wait_command(Words words);
int inspect_command(Words words);
int rerun_command(Words words);
int diff_command(Words words);
int image_command(Words words);
int image_build_command(Words words);
int image_list_command(Words words);
int image_save_command(Words words);
int image_load_command(Words words);
int image_import_command(Words words);
int image_inspect_command(Words words);
int image_push_command(Words words);
int image_pull_command(Words words);
int image_prune_command(Words words);
int image_du_command(Words words);
int image_verify_store_command(Words words);
int image_verify_command(Words words);
int catalog_command(Words words);
int catalog_list_command(Words words);
int catalog_show_command(Words words);
int catalog_choose_command(Words words);
int catalog_check_command(Words words);
// Not for people: this program started again by itself.
int supervise_command(Words words);
int contain_command(Words words);
int bytecode_command(Words words);
int ssh_proxy_command(Words words);  // ssh's ProxyCommand

}  // namespace startrail::cli
