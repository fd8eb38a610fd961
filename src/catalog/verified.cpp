#include "catalog/verified.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "catalog/plain_toml.hpp"

namespace startrail::catalog {
namespace {

constexpr std::size_t k_shown_digits = 12;

void note(std::vector<std::string>& places, const std::string& hardware) {
  if (std::ranges::find(places, hardware) == places.end()) places.push_back(hardware);
}

}  // namespace

bool is_about(const Verified& verified, const Combination& row) {
  return verified.framework == row.framework && verified.series == row.series && verified.tag == row.tag;
}

Result<std::vector<Verified>> parse_verified(std::string_view toml, std::string_view name) {
  const PlainToml file = TRY(parse_plain_toml(toml, name));
  std::vector<Verified> all;
  const Json& tables = base::member(file.root, "verified");
  for (std::size_t i = 0; i < tables.size(); ++i) {
    const Json& item = tables[i];
    for (const char* field : {"framework", "series", "release", "python", "level", "hardware", "date", "image"})
      if (base::string_at(item, field).empty())
        return fail(ErrorCode::corrupt, fmt::format("{}:{}: a verification lacks the field `{}`", name,
                                                    file.lines.at("verified").at(i), field));
    all.push_back({.framework = base::string_at(item, "framework"),
                   .series = base::string_at(item, "series"),
                   .tag = base::string_at(item, "tag"),
                   .release = base::string_at(item, "release"),
                   .python = base::string_at(item, "python"),
                   .level = base::string_at(item, "level"),
                   .hardware = base::string_at(item, "hardware"),
                   .date = base::string_at(item, "date"),
                   .image = base::string_at(item, "image"),
                   .build = base::string_at(item, "build"),
                   .result = base::string_at(item, "result"),
                   .lock = base::string_at(item, "lock")});
  }
  return all;
}

std::string in_words(const Verified& verified) {
  return fmt::format("{}{} on Python {} up to {}{}, {}, {}{}", verified.release,
                     verified.build == "cpu" ? ", CPU build," : "", verified.python, verified.level,
                     verified.result == "warned" ? " with warnings" : "",
                     verified.hardware == "cpu" ? "on a CPU only (a GPU is unchecked)" : "on " + verified.hardware,
                     verified.date, verified.lock.empty() ? "" : ", lock " + verified.lock.substr(0, k_shown_digits));
}

void mark_verified(std::vector<Combination>& rows, const std::vector<Verified>& verified) {
  for (auto& row : rows)
    for (const auto& item : verified) {
      if (!is_about(item, row)) continue;
      row.status = "verified";
      note(row.verified_on, item.hardware);
    }
}

}  // namespace startrail::catalog
