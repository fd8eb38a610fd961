#include <fmt/format.h>

#include "app/background.hpp"
#include "app/catalog.hpp"
#include "app/run_project.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/project_options.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "image build",
                          .arguments = "[OPTIONS] [DIR | NAME]",
                          .summary = "Make the image of a project, of a combination, or of a lock; prints its id.",
                          .examples =
                              "  trail image build                              Of the present folder\n"
                              "  trail image build pytorch:2.6                  Of a combination, without a project\n"
                              "  trail image build --lock pylock.trail.toml     Of this lock\n"};

struct Options {
  ProjectOptions project;
  std::optional<std::string> lock, folder;
  bool json = false;
};

struct Built {
  image::Image image;
  std::string lock_digest;
};

Result<Built> build_from_lock(const app::Installation& installation, const machine::Machine& machine,
                              const fs::path& file, Reporter& reporter) {
  const auto lock = TRY(lock::read_lock(file));
  const fs::path folder = fs::absolute(file).parent_path();
  return Built{TRY(app::ensure_image(installation, lock, folder, machine, reporter)), lock::digest(lock)};
}

// "pytorch:2.6" is a combination, unless a folder has that name.
bool names_combination(const std::string& text) {
  std::error_code ignored;
  return text.find_first_of(":=") != std::string::npos && catalog::is_name(text) && !fs::exists(text, ignored);
}

Result<Built> build_from_name(const app::Installation& installation, const machine::Machine& machine,
                              const Options& options, Reporter& reporter) {
  const auto request = TRY(options.project.request("."));
  app::Phases phases;
  const auto locked = TRY(app::lock_combination(installation, machine, *options.folder, request, phases, reporter));
  return Built{TRY(app::ensure_image(installation, locked.lock, locked.folder, machine, reporter)),
               lock::digest(locked.lock)};
}

Result<Built> build_from_folder(const app::Installation& installation, const machine::Machine& machine,
                                const Options& options, Reporter& reporter) {
  const auto request = TRY(options.project.request(options.folder.value_or(".")));
  app::Phases phases;
  const auto locked = TRY(app::lock_project(installation, machine, request, phases, reporter));
  return Built{TRY(app::ensure_image(installation, locked.lock, locked.folder, machine, reporter)),
               lock::digest(locked.lock)};
}

Result<Built> build(const app::Installation& installation, const Options& options, Reporter& reporter) {
  if (options.lock && options.folder)
    return fail(base::error(ErrorCode::usage, "give either --lock FILE or a folder, not both")
                    .with_hint("see `trail image build --help`"));
  TRY(app::prepare_state(installation));
  const auto machine = machine::survey(installation.host, installation.paths.root, machine::Depth::quick);
  if (options.lock) return build_from_lock(installation, machine, *options.lock, reporter);
  if (options.folder && names_combination(*options.folder))
    return build_from_name(installation, machine, options, reporter);
  return build_from_folder(installation, machine, options, reporter);
}

}  // namespace

int image_build_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  line.value("--lock", options.lock, "FILE", "Take this lock as it is");
  options.project.add_to(line);
  line.flag("--json", options.json, "Print JSON");
  line.argument("dir", options.folder);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = options.json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto built = build(*installation, options, reporter);
  reporter.finish();
  if (!built) return report(built.error(), format);
  app::compile_bytecode_in_background(*installation, built->image, app::Begin::at_once);
  if (options.json)
    print_json(Json{{"id", built->image.id}, {"lock_digest", built->lock_digest}, {"python", built->image.python}});
  else
    print(fmt::format("{}\n", built->image.id));
  return 0;
}

}  // namespace startrail::cli
