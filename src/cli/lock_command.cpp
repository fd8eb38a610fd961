#include <fmt/format.h>

#include "app/lock_project.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/project_options.hpp"
#include "cli/terminal_reporter.hpp"
#include "image/image.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "lock",
                          .arguments = "[OPTIONS] [DIR]",
                          .summary = "Choose what a project needs on this machine, and lock it in pylock.trail.toml.",
                          .examples =
                              "  trail lock                          Lock the present folder\n"
                              "  trail lock --dry-run --explain      See what would be chosen, and why\n"
                              "  trail lock --upgrade                Take newer versions\n"
                              "  trail lock --framework torch==2.10.0\n"};

struct Options {
  ProjectOptions project;
  std::optional<std::string> folder;
  bool dry_run = false, json = false, explain = false;
};

Json package_json(const lock::LockedPackage& package) {
  const auto or_absent = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  static constexpr std::array<std::string_view, 5> k_kinds{"wheel", "sdist", "vcs", "archive", "directory"};
  return Json{{"name", package.name},
              {"version", or_absent(package.version)},
              {"kind", k_kinds.at(static_cast<std::size_t>(package.kind))},
              {"file", or_absent(package.artifact.filename)},
              {"size_bytes", package.artifact.size.count == 0 ? Json(nullptr) : Json(package.artifact.size.count)},
              {"sha256", or_absent(package.artifact.sha256)}};
}

Json lock_json(const app::LockedProject& locked, const std::optional<image::Plan>& plan) {
  const lock::Lock& lock = locked.lock;
  const auto or_absent = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  Json packages = Json::array();
  for (const auto& package : lock.packages) packages.push_back(package_json(package));
  return Json{{"lock", locked.file.string()},
              {"reused", locked.reused},
              {"digest", lock::digest(lock)},
              {"python", or_absent(lock.python)},
              {"suite", or_absent(lock.suite)},
              {"framework", or_absent(lock.framework)},
              {"framework_version", or_absent(lock.framework_version)},
              {"cuda", or_absent(lock.cuda)},
              {"cudnn", or_absent(lock.cudnn)},
              {"nccl", or_absent(lock.nccl)},
              {"driver_floor", or_absent(lock.driver_floor)},
              {"build", lock.build == project::Build::cpu ? "cpu" : "gpu"},
              {"packages", packages},
              {"download_bytes", plan ? Json(plan->download.count) : Json(nullptr)},
              {"disk_needed_bytes", plan ? Json(plan->disk_needed.count) : Json(nullptr)},
              {"notes", lock.notes},
              {"choice_steps", locked.steps}};
}

// A refusal's own shape: reason and hints at the root, where scripts look for them.
Json refusal_json(const Error& error) {
  Json json = error_json(error);
  json["code"] = base::name(error.code);
  json["reason"] = error.message;
  json["hints"] = error.hints;
  json["context"] = error.context;
  return json;
}

std::string summary(const app::LockedProject& locked, const std::optional<image::Plan>& plan) {
  const lock::Lock& lock = locked.lock;
  std::string text = fmt::format("Python {} on {}", lock.python, lock.suite);
  if (!lock.framework.empty()) text += fmt::format(", {} {}", lock.framework, lock.framework_version);
  if (lock.build == project::Build::cpu)
    text += " (CPU build)";
  else if (!lock.cuda.empty())
    text += fmt::format(" with CUDA {}", lock.cuda);
  if (!lock.driver_floor.empty() && lock.build == project::Build::gpu)
    text += fmt::format(", NVIDIA driver {} or newer", lock.driver_floor);
  text += fmt::format(", {} package{}", lock.packages.size(), lock.packages.size() == 1 ? "" : "s");
  if (plan && plan->download.count > 0) text += fmt::format(", {} to download", base::to_text(plan->download));
  return text;
}

void show(const app::LockedProject& locked, const std::optional<image::Plan>& plan, const Options& options) {
  if (options.json) return print_json(lock_json(locked, plan));
  if (options.explain)
    for (const auto& step : locked.steps) say(step);
  say(summary(locked, plan));
  if (options.dry_run) return say("nothing was written (--dry-run)");
  print(fmt::format("{}\n", locked.file.string()));
}

Result<app::LockedProject> lock(const Options& options, const app::Installation& installation, Reporter& reporter) {
  auto request = TRY(options.project.request(options.folder.value_or(".")));
  if (options.dry_run) request.write = app::WriteLock::no;
  // The reasoning is only known when the choice is made again.
  if (options.explain) request.explain = app::Explain::yes;
  const auto machine = machine::survey(installation.host, installation.paths.root, machine::Depth::full);
  app::Phases phases;
  return app::lock_project(installation, machine, request, phases, reporter);
}

int refuse(const Error& error, Format format) {
  if (format == Format::text) return report(error, format);
  print_json(refusal_json(error));
  say(styled_error(error, wants_colour(2)));
  return base::exit_code(error.code);
}

}  // namespace

int lock_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  line.flag("--dry-run", options.dry_run, "Write nothing");
  line.flag("--explain", options.explain, "Tell how the combination was chosen");
  options.project.add_to(line);
  line.flag("--json", options.json, "Print JSON");
  line.argument("dir", options.folder);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = options.json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return refuse(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto locked = lock(options, *installation, reporter);
  reporter.finish();
  if (!locked) return refuse(locked.error(), format);
  const auto plan = image::plan(locked->lock, installation->paths.store(), locked->folder);
  show(*locked, plan ? std::optional(*plan) : std::nullopt, options);
  return 0;
}

}  // namespace startrail::cli
