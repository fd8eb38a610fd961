// `trail image list|inspect|verify-store`.
#include <fmt/format.h>

#include "app/images.hpp"
#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/table.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr std::size_t k_short_id = 19;  // "sha256:" and twelve digits

constexpr Manual k_list_manual{.name = "image list",
                               .arguments = "[OPTIONS]",
                               .summary = "List the images that are here, newest first.",
                               .examples = "  trail image list\n  trail image list --json\n"};
constexpr Manual k_inspect_manual{.name = "image inspect",
                                  .arguments = "[OPTIONS] ID",
                                  .summary = "Show what an image is made of.",
                                  .examples = "  trail image inspect 3f2a\n"};
constexpr Manual k_verify_manual{
    .name = "image verify-store",
    .arguments = "[OPTIONS]",
    .summary = "Check every file of the store against its hash, and every image against its wheels.",
    .examples =
        "  trail image verify-store\n"
        "  trail image verify-store --repair    Remove what is damaged; the next build makes it anew\n"};

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string table_of(const std::vector<image::Summary>& images) {
  Table table({"IMAGE", "NAME", "FRAMEWORK", "PYTHON", "BASE", "PACKAGES", "SIZE", "MADE", "USED"});
  const auto now = base::now();
  for (const auto& image : images)
    table.add({image.id.substr(0, k_short_id), or_dash(image.name),
               or_dash(image.framework.empty() ? "" : image.framework + " " + image.framework_version),
               or_dash(image.python), or_dash(image.suite), fmt::format("{}", image.packages),
               base::to_text(image.size), base::ago(image.created, now), base::ago(image.last_used, now)});
  return table.text(output_width());
}

std::string text_of_value(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_null() ? "-" : base::to_compact_text(value);
}

std::string text_of_verification(const Json& statement) {
  if (!statement.is_object()) return fmt::format("{:<18}{}\n", "verification", "none: trail image verify");
  const Json& told = base::member(base::member(statement, "predicate"), "startrail");
  std::string text =
      fmt::format("{:<18}{}, {}\n", "verification", base::string_at(base::member(statement, "predicate"), "result"),
                  base::string_at(told, "verified"));
  for (const auto& level : base::member(told, "levels"))
    text += fmt::format("  {:<16}{}: {}\n", base::string_at(level, "level"), base::string_at(level, "outcome"),
                        base::string_at(level, "summary"));
  return text;
}

std::string text_of_image(const Json& image) {
  std::string text;
  for (const auto& [key, value] : image.items()) {
    if (key == "packages" || key == "lock" || value.is_structured()) continue;
    text += fmt::format("{:<18}{}\n", key, text_of_value(value));
  }
  text += text_of_verification(base::member(image, "verification"));
  for (const auto& package : base::member(image, "packages"))
    text += fmt::format("  {} {}\n", base::string_at(package, "name"), base::string_at(package, "version"));
  return text;
}

// What was found without repairing anything.
Result<image::RepairResult> only_verified(Result<std::vector<image::StoreFault>> faults) {
  if (!faults) return fail(std::move(faults).error());
  return image::RepairResult{.repaired = {}, .left = std::move(*faults), .images = {}};
}

Json json_of_check(const image::RepairResult& checked) {
  Json faults = Json::array();
  for (const auto* list : {&checked.repaired, &checked.left})
    for (const auto& fault : *list)
      faults.push_back(
          Json{{"what", fault.what}, {"path", fault.path.string()}, {"repaired", list == &checked.repaired}});
  return Json{{"faults", std::move(faults)}, {"images_removed", checked.images}};
}

enum class Asked { check, repair };

void show_check(const image::RepairResult& checked, Asked asked) {
  for (const auto& fault : checked.repaired)
    print(fmt::format("{}: repaired\n  {}\n", fault.what, fault.path.string()));
  for (const auto& fault : checked.left) print(fmt::format("{}\n  {}\n", fault.what, fault.path.string()));
  for (const std::string& id : checked.images)
    say(fmt::format("image {} was made from what was damaged and is gone; the next build makes it again",
                    id.substr(0, 12)));
  if (!checked.repaired.empty()) say(fmt::format("{} faults are repaired", checked.repaired.size()));
  if (checked.left.empty()) return say("every stored file is as it should be");
  say(asked == Asked::repair
          ? fmt::format("{} faults are left, for live runs use what they are in; repair again when those have ended",
                        checked.left.size())
          : fmt::format("{} faults; take them out of the store: trail image verify-store --repair",
                        checked.left.size()));
}

}  // namespace

int image_list_command(Words words) {
  bool json = false;
  CommandLine line(k_list_manual);
  line.flag("--json", json, "Print JSON");
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  const auto images = image::list(installation->paths.store());
  if (!images) return report(images.error(), format);
  if (json)
    print_json(app::to_json(*images));
  else if (images->empty())
    say("no images yet; make one: trail image build");
  else
    print(table_of(*images));
  return 0;
}

int image_inspect_command(Words words) {
  bool json = false;
  std::optional<std::string> id;
  CommandLine line(k_inspect_manual);
  line.flag("--json", json, "Print JSON");
  line.argument("id", id);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  if (!id)
    return report(base::error(ErrorCode::usage, "`trail image inspect` needs an image")
                      .with_hint("see those that are here: trail image list"),
                  format);
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  const auto image = image::inspect(installation->paths.store(), *id);
  if (!image) return report(image.error(), format);
  if (json)
    print_json(*image);
  else
    print(text_of_image(*image));
  return 0;
}

int image_verify_store_command(Words words) {
  bool json = false, repair = false;
  CommandLine line(k_verify_manual);
  line.flag("--repair", repair, "Remove what is damaged, and the images made from it; what live runs use stays");
  line.flag("--json", json, "Print JSON");
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto checked = repair ? app::repair_store(*installation, reporter)
                              : only_verified(image::verify_store(installation->paths.store(), reporter));
  reporter.finish();
  if (!checked) return report(checked.error(), format);
  if (json)
    print_json(json_of_check(*checked));
  else
    show_check(*checked, repair ? Asked::repair : Asked::check);
  return checked->left.empty() ? 0 : 1;
}

}  // namespace startrail::cli
