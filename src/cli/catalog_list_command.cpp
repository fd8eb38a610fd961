#include <fmt/format.h>
#include <fmt/ranges.h>

#include "app/catalog.hpp"
#include "catalog/pythons.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/table.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{
    .name = "catalog list",
    .arguments = "[OPTIONS]",
    .summary = "List the combinations of framework, CUDA and Python that are known to go together.",
    .examples =
        "  trail catalog list                        Those of the default index\n"
        "  trail catalog list --builds               Also builds for another CUDA\n"
        "  trail catalog list --framework torch      Of one framework\n"};

struct Options {
  std::optional<std::string> framework;
  bool builds = false, json = false;
};

// "sm_50 to sm_90", with a "+" where newer ones run by PTX.
std::string architectures(const catalog::Combination& row) {
  const auto sm = [](std::string text) {
    std::erase(text, '.');
    return "sm_" + text;
  };
  return fmt::format("{} to {}{}", sm(row.architectures.front()),
                     sm(row.ptx && !row.ptx_until.empty() ? row.ptx_until : row.architectures.back()),
                     row.ptx && row.ptx_until.empty() ? "+" : "");
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

std::string where_from(const catalog::Combination& row) {
  if (row.provider == catalog::Provider::user) return "user";
  return row.index.empty() ? "default index" : row.index;
}

// "verified (cpu)": where it was tried says for which machines it holds.
std::string status(const catalog::Combination& row) {
  return row.verified_on.empty() ? row.status : fmt::format("{} ({})", row.status, fmt::join(row.verified_on, ", "));
}

bool is_wanted(const catalog::Combination& row, const Options& options) {
  const std::string framework = options.framework == "pytorch" ? "torch" : options.framework.value_or("");
  return (framework.empty() || row.framework == framework) && (options.builds || row.tag.empty() || options.json);
}

void show(const std::vector<catalog::Combination>& rows, const Options& options) {
  if (options.json) {
    Json list = Json::array();
    for (const auto& row : rows)
      if (is_wanted(row, options)) list.push_back(catalog::to_json(row));
    return print_json(Json{{"combinations", std::move(list)}});
  }
  Table table({"FRAMEWORK", "SERIES", "CUDA", "CUDNN", "PYTHON", "DRIVER", "GPUS", "STATUS", "FROM"});
  for (const auto& row : rows)
    if (is_wanted(row, options))
      table.add({row.framework, row.tag.empty() ? row.series : row.series + "+" + row.tag, or_dash(row.cuda),
                 or_dash(row.cudnn), catalog::shown_minors(row.pythons), row.driver_floor, architectures(row),
                 status(row), where_from(row)});
  print(table.text(output_width()));
}

}  // namespace

int catalog_list_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  line.value("--framework", options.framework, "NAME", "Only this one: torch, tensorflow or jax");
  line.flag("--builds", options.builds, "Also builds of another index, for another CUDA");
  line.flag("--json", options.json, "Print JSON");
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = options.json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  const auto rows = app::catalog_rows(*installation);
  if (!rows) return report(rows.error(), format);
  show(*rows, options);
  return 0;
}

}  // namespace startrail::cli
