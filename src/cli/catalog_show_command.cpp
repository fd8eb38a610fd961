#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "app/catalog.hpp"
#include "catalog/rows.hpp"
#include "cli/commands.hpp"
#include "cli/output.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "catalog show",
                          .arguments = "[OPTIONS] NAME",
                          .summary = "Show everything that is known of a combination, and where it was read.",
                          .examples =
                              "  trail catalog show pytorch:2.6\n"
                              "  trail catalog show torch:2.6+cu118        A build for another CUDA\n"
                              "  trail catalog show tensorflow --json      The newest\n"};

// In the order in which they are shown; the keys are those of the JSON.
constexpr std::array<std::string_view, 19> k_facts{
    "newest",      "cuda",          "cudnn",       "nccl",       "pythons",     "suites", "driver_floor",
    "driver_rule", "architectures", "ptx",         "ptx_until",  "glibc_floor", "index",  "gpu_extra",
    "gpu_wheels",  "environment",   "torchvision", "torchaudio", "companions"};

// Facts that follow from another one have its source.
std::string_view origin_of(std::string_view fact) {
  if (fact == "suites") return "pythons";
  if (fact == "driver_rule") return "driver_floor";
  if (fact == "ptx" || fact == "ptx_until") return "architectures";
  if (fact == "environment") return "gpu_wheels";
  return fact;
}

std::string in_words(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  std::string text;
  for (const auto& item : value) text += (text.empty() ? "" : ", ") + item.get<std::string>();
  return text;
}

Json verifications_of(const std::vector<catalog::Verified>& all) {
  Json list = Json::array();
  for (const auto& item : all)
    list.push_back(Json{{"release", item.release},
                        {"build", item.build},
                        {"python", item.python},
                        {"level", item.level},
                        {"result", item.result},
                        {"hardware", item.hardware},
                        {"date", item.date},
                        {"lock", item.lock},
                        {"image", item.image}});
  return list;
}

Json builds_of(const catalog::Combination& row) {
  Json builds = Json::array();
  for (const auto& other : catalog::combinations())
    if (other.framework == row.framework && other.series == row.series && other.tag != row.tag)
      builds.push_back(Json{{"tag", other.tag}, {"cuda", other.cuda}, {"index", other.index}});
  return builds;
}

Json everything(const catalog::Combination& row, const std::vector<catalog::Verified>& verified) {
  Json json = catalog::to_json(row);
  Json sources = Json::object();
  for (const auto& fact : k_facts) {
    const std::string source = catalog::source_of(row, origin_of(fact));
    if (!source.empty()) sources[std::string(fact)] = source;
  }
  json["sources"] = std::move(sources);
  json["verifications"] = verifications_of(verified);
  json["builds"] = builds_of(row);
  return json;
}

void show(const catalog::Combination& row, const Json& json, const std::vector<catalog::Verified>& verified) {
  std::string text = fmt::format("{}, {}{}\n", catalog::title(row), row.status,
                                 row.provider == catalog::Provider::user ? ", user" : "");
  for (const auto& fact : k_facts) {
    const Json& value = base::member(json, fact);
    if (value.is_null() || (value.is_array() && value.empty())) continue;
    text += fmt::format("{:<14}{}\n", fact, in_words(value));
    const std::string source = catalog::source_of(row, origin_of(fact));
    if (!source.empty() && origin_of(fact) == fact) text += fmt::format("{:<14}  from: {}\n", "", source);
  }
  for (const auto& build : json.at("builds"))
    text += fmt::format("{:<14}{}, CUDA {}\n", "other build",
                        build.at("tag") == "" ? "the default index's" : in_words(build.at("tag")),
                        in_words(build.at("cuda")));
  for (const auto& item : verified) text += fmt::format("{:<14}{}\n", "verified", catalog::in_words(item));
  print(text + fmt::format("{:<14}{}\n", "written in", row.file));
}

}  // namespace

int catalog_show_command(Words words) {
  std::optional<std::string> name;
  bool json = false;
  CommandLine line(k_manual);
  line.flag("--json", json, "Print JSON");
  line.argument("name", name);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const Format format = json ? Format::json : Format::text;
  if (!name)
    return report(base::error(ErrorCode::usage, "`trail catalog show` needs a combination")
                      .with_hint("for example: trail catalog show pytorch:2.6"),
                  format);
  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), format);
  const auto rows = app::catalog_rows(*installation);
  if (!rows) return report(rows.error(), format);
  const auto named = catalog::named(*name);
  if (!named) return report(named.error(), format);
  const auto row = std::ranges::find_if(
      *rows, [&](const auto& other) { return catalog::title(other) == catalog::title(*named->row); });
  const auto verified = app::verifications_of(*installation, *row);
  if (!verified) return report(verified.error(), format);
  const Json all = everything(*row, *verified);
  if (json)
    print_json(all);
  else
    show(*row, all, *verified);
  return 0;
}

}  // namespace startrail::cli
