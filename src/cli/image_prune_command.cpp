// `trail image prune`.
#include <fmt/format.h>

#include "app/images.hpp"
#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{
    .name = "image prune",
    .arguments = "[OPTIONS]",
    .summary = "Remove images that no live run uses, with the wheels and bases that only they needed.",
    .examples =
        "  trail image prune --unused 30d               Those not used for 30 days\n"
        "  trail image prune --keep 50GB                The least recently used, until 50 GB are left\n"
        "  trail image prune --keep 50GB --unused 30d   For either reason\n"
        "  trail image prune --all                      All, with wheels and bases that nothing needs\n"};

struct Given {
  std::optional<std::string> unused, keep;
  bool all = false, dry_run = false;
};

Result<image::PruneOptions> options_of(const Given& words) {
  image::PruneOptions options{.everything_unused = words.all};
  if (words.dry_run) options.mode = image::PruneMode::only_tell;
  if (!words.unused && !words.keep && !words.all)
    return fail(base::error(ErrorCode::usage, "`trail image prune` needs to know what to remove")
                    .with_hint("those not used for a while: trail image prune --unused 30d")
                    .with_hint("the least recently used of a large store: trail image prune --keep 50GB")
                    .with_hint("all that no live run uses: trail image prune --all"));
  if (words.all && (words.unused || words.keep))
    return fail(base::error(ErrorCode::usage, "--all removes every image, --unused and --keep only some")
                    .with_hint("leave --all out, or the others"));
  if (words.unused) {
    const auto duration = base::parse_duration(*words.unused);
    if (!duration)
      return fail(base::error(ErrorCode::usage, fmt::format("--unused `{}` is not a duration", *words.unused))
                      .with_hint("for example: --unused 30d"));
    options.unused_for = *duration;
  }
  if (words.keep) {
    const auto size = base::parse_bytes(*words.keep);
    if (!size)
      return fail(base::error(ErrorCode::usage, fmt::format("--keep `{}` is not a size", *words.keep))
                      .with_hint("for example: --keep 50GB"));
    options.keep = *size;
  }
  return options;
}

Json to_json(const image::PruneResult& pruned, image::PruneMode mode) {
  return Json{{"images", pruned.images},
              {"image_ids", pruned.image_ids},
              {"wheels", pruned.wheels},
              {"bases", pruned.bases},
              {"freed_bytes", pruned.freed.count},
              {"store_bytes", pruned.size.count},
              {"dry_run", mode == image::PruneMode::only_tell}};
}

void show(const image::PruneResult& pruned, const image::PruneOptions& options) {
  const bool removed = options.mode == image::PruneMode::remove;
  if (!removed)
    for (const std::string& id : pruned.image_ids) print(fmt::format("{}\n", id));
  say(fmt::format("{} {} images, {} wheels and {} bases: {} {}; the store {} {}", removed ? "removed" : "would remove",
                  pruned.images, pruned.wheels, pruned.bases, base::to_text(pruned.freed),
                  removed ? "freed" : "to be freed", removed ? "has" : "would have", base::to_text(pruned.size)));
  if (options.keep && pruned.size > *options.keep)
    say(fmt::format("more than {} stay: what live runs use, and images used in the last minute",
                    base::to_text(*options.keep)));
}

}  // namespace

int image_prune_command(Words words) {
  bool json = false;
  Given given;
  CommandLine line(k_manual);
  line.value("--unused", given.unused, "TIME", "Images not used for this long, e.g. 30d");
  line.value("--keep", given.keep, "SIZE", "The least recently used images, until the store has this size, e.g. 50GB");
  line.flag("--all", given.all, "All images, and wheels and bases that nothing needs then");
  line.flag("--dry-run", given.dry_run, "Only tell what would go");
  line.flag("--json", json, "Print JSON");
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  const auto options = options_of(given);
  if (!options) return report(options.error(), format);
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto pruned = app::prune_images(*installation, *options, reporter);
  reporter.finish();
  if (!pruned) return report(pruned.error(), format);
  if (json)
    print_json(to_json(*pruned, options->mode));
  else
    show(*pruned, *options);
  return 0;
}

}  // namespace startrail::cli
