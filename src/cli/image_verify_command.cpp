#include <fmt/format.h>

#include "app/images.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"
#include "image/verify/verify.hpp"

namespace startrail::cli {
namespace {

using image::Outcome;

constexpr Manual k_manual{
    .name = "image verify",
    .arguments = "[OPTIONS] IMAGE",
    .summary = "Check that an image does what it promises, from its files to a training.",
    .examples =
        "  trail image verify 3f2a                          All levels; the result is kept with the image\n"
        "  trail image verify 3f2a --level files,linkage    These only; nothing is kept\n",
    .notes =
        "Levels: files (every hash), linkage (every library is found), imports (every package),\n"
        "selftest (the framework's own checks), training (digits, and a small transformer, each to\n"
        "a threshold), collectives (sums over 2 and 4 processes; NCCL where GPUs are), speed (a figure).\n"
        "Kept as an in-toto attestation, which `trail image inspect` shows. Exit code 1: a level failed.\n"};

struct Options {
  std::optional<std::string> image;
  std::vector<std::string> levels;
  bool json = false;
};

Result<std::vector<image::Level>> levels_of(const std::vector<std::string>& words) {
  std::vector<image::Level> levels;
  for (const std::string& word : words)
    for (std::size_t start = 0; start <= word.size();) {
      const std::size_t end = std::min(word.find(',', start), word.size());
      const std::string name = word.substr(start, end - start);
      const auto level = image::level_from_name(name);
      if (!level) {
        std::string known;
        for (const image::Level each : image::all_levels())
          known += fmt::format("{}{}", known.empty() ? "" : ", ", image::name(each));
        return fail(
            base::error(ErrorCode::usage, fmt::format("there is no level `{}`", name)).with_hint("levels: " + known));
      }
      levels.push_back(*level);
      start = end + 1;
    }
  return levels;
}

std::string line_of(const image::LevelResult& result) {
  const bool colour = wants_colour(STDOUT_FILENO);
  const Style style = result.outcome == Outcome::failed   ? Style::red
                      : result.outcome == Outcome::passed ? Style::green
                                                          : Style::yellow;
  std::string text = fmt::format("{:<12}{}{:>8.1f} s  {}\n", image::name(result.level),
                                 styled(fmt::format("{:<9}", image::name(result.outcome)), style, colour),
                                 std::chrono::duration<double>(result.took).count(), result.summary);
  constexpr std::size_t k_shown = 5;
  for (std::size_t i = 0; i < result.findings.size() && i < k_shown; ++i)
    text += fmt::format("            {}\n", result.findings[i]);
  if (result.findings.size() > k_shown)
    text += fmt::format("            and {} more: --json shows them\n", result.findings.size() - k_shown);
  return text;
}

int show(const Options& options, const app::Verified& verified) {
  if (options.json) {
    print_json(verified.statement);
  } else {
    for (const auto& result : verified.verification.levels) print(line_of(result));
    say(verified.kept ? fmt::format("kept with image {}", verified.verification.image.substr(0, 19))
                      : "not kept: only a verification in all levels is");
  }
  return verified.verification.passed() ? 0 : 1;
}

}  // namespace

int image_verify_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  line.values("--level", options.levels, "LEVEL,…", "Only these levels");
  line.flag("--json", options.json, "Print the attestation");
  line.argument("image", options.image);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = options.json ? Format::json : Format::text;
  if (!options.image)
    return report(base::error(ErrorCode::usage, "`trail image verify` needs an image")
                      .with_hint("see those that are here: trail image list"),
                  format);
  const auto levels = levels_of(options.levels);
  if (!levels) return report(levels.error(), format);
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto verified = app::verify_image(*installation, *options.image, *levels, reporter);
  reporter.finish();
  if (!verified) return report(verified.error(), format);
  return show(options, *verified);
}

}  // namespace startrail::cli
