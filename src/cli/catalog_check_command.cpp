#include <fmt/format.h>

#include "app/catalog.hpp"
#include "app/catalog_online.hpp"
#include "catalog/sanity.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "catalog check",
                          .arguments = "[OPTIONS]",
                          .summary = "Check that the catalog's rows, yours too, are whole and hold together.",
                          .examples =
                              "  trail catalog check                       Without network\n"
                              "  trail catalog check --online              Also against the index's metadata\n",
                          .notes = "Exit code 1 when something is wrong, or differs.\n"};

struct Options {
  std::optional<std::string> framework;
  bool online = false, json = false;
};

struct Checked {
  std::size_t rows = 0;
  std::vector<catalog::Finding> findings;
  std::optional<app::Comparison> comparison;
  [[nodiscard]] bool is_fine() const { return findings.empty() && (!comparison || comparison->differences.empty()); }
};

Json to_json(const Checked& checked) {
  Json findings = Json::array();
  for (const auto& item : checked.findings)
    findings.push_back(Json{{"row", item.row}, {"file", item.file}, {"what", item.what}});
  Json online;
  if (checked.comparison) {
    Json differences = Json::array();
    for (const auto& item : checked.comparison->differences)
      differences.push_back(
          Json{{"row", item.row}, {"fact", item.fact}, {"catalog", item.catalog}, {"index", item.index}});
    online = Json{{"rows", checked.comparison->rows},
                  {"facts", checked.comparison->facts},
                  {"differences", std::move(differences)},
                  {"skipped", checked.comparison->skipped}};
  }
  return Json{{"rows", checked.rows}, {"findings", std::move(findings)}, {"online", std::move(online)}};
}

void show(const Checked& checked) {
  for (const auto& item : checked.findings) print(fmt::format("{}: {} {}\n", item.file, item.row, item.what));
  if (checked.comparison) {
    for (const auto& item : checked.comparison->differences)
      print(
          fmt::format("{}: {} is {} in the catalog, {} in the index\n", item.row, item.fact, item.catalog, item.index));
    for (const auto& line : checked.comparison->skipped) say(fmt::format("not compared: {}", line));
    say(fmt::format("{} facts of {} rows compared with the index, {} differ", checked.comparison->facts,
                    checked.comparison->rows, checked.comparison->differences.size()));
  }
  say(fmt::format("{} rows, {} finding{}", checked.rows, checked.findings.size(),
                  checked.findings.size() == 1 ? "" : "s"));
}

Result<Checked> check(const app::Installation& installation, const Options& options, Reporter& reporter) {
  auto rows = TRY(app::catalog_rows(installation));
  if (options.framework) std::erase_if(rows, [&](const auto& row) { return row.framework != *options.framework; });
  Checked checked{.rows = rows.size(), .findings = catalog::findings(rows), .comparison = std::nullopt};
  if (options.online) checked.comparison = TRY(app::compare_with_index(installation, rows, reporter));
  return checked;
}

}  // namespace

int catalog_check_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  line.flag("--online", options.online, "Compare with the index's pages and the wheels' metadata, through uv");
  line.value("--framework", options.framework, "NAME", "Only this one: torch, tensorflow or jax");
  line.flag("--json", options.json, "Print JSON");
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = options.json ? Format::json : Format::text;
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto checked = check(*installation, options, reporter);
  reporter.finish();
  if (!checked) return report(checked.error(), format);
  if (options.json)
    print_json(to_json(*checked));
  else
    show(*checked);
  return checked->is_fine() ? 0 : 1;
}

}  // namespace startrail::cli
