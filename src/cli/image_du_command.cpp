// `trail image du`.
#include <fmt/format.h>

#include <array>

#include "app/images.hpp"
#include "base/units.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/table.hpp"

namespace startrail::cli {
namespace {

constexpr std::size_t k_short_id = 19;  // "sha256:" and twelve digits

constexpr Manual k_manual{.name = "image du",
                          .arguments = "[OPTIONS]",
                          .summary = "Show what the images take of the disk: each, what it shares, and all together.",
                          .examples = "  trail image du\n  trail image du --json\n"};

std::string table_of(const std::vector<image::ImageUsage>& images) {
  Table table({"IMAGE", "NAME", "SIZE", "OWN", "SHARED", "USED"});
  const auto now = base::now();
  for (const auto& image : images)
    table.add({image.id.substr(0, k_short_id), image.name.empty() ? "-" : image.name, base::to_text(image.size),
               base::to_text(image.own), base::to_text(Bytes{image.size.count - image.own.count}),
               base::ago(image.last_used, now)});
  return table.text(output_width());
}

std::string sums_of(const image::DiskUsage& usage) {
  const std::array<std::pair<const char*, Bytes>, 9> sums{{{"wheels", usage.wheels},
                                                           {"layers", usage.layers},
                                                           {"bases", usage.bases},
                                                           {"bytecode", usage.bytecode},
                                                           {"images' own files", usage.trees},
                                                           {"unfinished", usage.unfinished},
                                                           {"other", usage.other},
                                                           {"all on the disk", usage.total},
                                                           {"no image needs", usage.unneeded}}};
  std::string text;
  for (const auto& [name, size] : sums) text += fmt::format("{:<18}{:>9}\n", name, base::to_text(size));
  return text;
}

}  // namespace

int image_du_command(Words words) {
  bool json = false;
  CommandLine line(k_manual);
  line.flag("--json", json, "Print JSON");
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  const auto usage = image::disk_usage(installation->paths.store());
  if (!usage) return report(usage.error(), format);
  if (json)
    print_json(app::to_json(*usage));
  else
    print((usage->images.empty() ? "" : table_of(usage->images) + "\n") + sums_of(*usage));
  return 0;
}

}  // namespace startrail::cli
