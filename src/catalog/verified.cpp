#include "catalog/verified.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "catalog/plain_toml.hpp"

namespace startrail::catalog {
namespace {

bool is_about(const Verified& verified, const Combination& row) {
  return verified.framework == row.framework && verified.series == row.series && verified.tag == row.tag;
}

}  // namespace

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
                   .image = base::string_at(item, "image")});
  }
  return all;
}

void mark_verified(std::vector<Combination>& rows, const std::vector<Verified>& verified) {
  for (auto& row : rows)
    if (std::ranges::any_of(verified, [&](const Verified& item) { return is_about(item, row); }))
      row.status = "verified";
}

}  // namespace startrail::catalog
