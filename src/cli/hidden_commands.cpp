// Verbs for this program alone: it starts itself again as a supervisor, a contained build, or background work.
#include <chrono>
#include <cstdlib>

#include "app/background.hpp"
#include "app/installation.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "image/system_store.hpp"
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
  if (words.size() != 1) return needs_one_argument("supervise");
  image::use_system_store(app::system_store_of(base::current_environment()));
  return supervise::supervise_main(words.front());
}

int contain_command(Words words) {
  return words.size() == 1 ? sandbox::contain_main(words.front()) : needs_one_argument("contain");
}

int bytecode_command(Words words) {
  if (words.empty()) return needs_one_argument("bytecode");
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), Format::text);
  const std::chrono::seconds delay(words.size() > 1 ? std::atoi(words[1].c_str()) : 0);
  const auto compiled = app::compile_bytecode(*installation, words.front(), delay);
  return compiled ? 0 : report(compiled.error(), Format::text);
}

}  // namespace startrail::cli
