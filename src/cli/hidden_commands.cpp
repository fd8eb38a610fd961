// Verbs for this program alone: it starts itself again as a supervisor, a contained build, or background work.
#include "app/background.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "sandbox/sandbox.hpp"
#include "supervise/supervise.hpp"

namespace startrail::cli {
namespace {

int needs_one_argument(std::string_view verb) {
  return report(
      base::error(ErrorCode::usage, "`trail " + std::string(verb) + "` is started by trail itself, with one argument"),
      Format::text);
}

}  // namespace

int supervise_command(Words words) {
  return words.size() == 1 ? supervise::supervise_main(words.front()) : needs_one_argument("supervise");
}

int contain_command(Words words) {
  return words.size() == 1 ? sandbox::contain_main(words.front()) : needs_one_argument("contain");
}

int bytecode_command(Words words) {
  if (words.size() != 1) return needs_one_argument("bytecode");
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), Format::text);
  const auto compiled = app::compile_bytecode(*installation, words.front());
  return compiled ? 0 : report(compiled.error(), Format::text);
}

}  // namespace startrail::cli
