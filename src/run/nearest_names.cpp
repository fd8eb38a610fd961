#include "run/nearest_names.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace startrail::run {
namespace {

std::size_t distance(const std::string& a, const std::string& b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0U);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = std::exchange(row[j], std::min({row[j] + 1, row[j - 1] + 1, replaced}));
    }
  }
  return row[b.size()];
}

}  // namespace

std::vector<std::string> nearest_names(const std::string& wanted, const std::set<std::string>& names) {
  const std::size_t most = std::max<std::size_t>(wanted.size() / 3, 1);
  std::vector<std::pair<std::size_t, std::string>> near;
  for (const auto& name : names)
    if (const std::size_t away = distance(wanted, name); away <= most) near.emplace_back(away, name);
  std::ranges::sort(near);
  std::vector<std::string> result;
  for (auto& [away, name] : near)
    if (result.size() < 3) result.push_back(std::move(name));
  return result;
}

}  // namespace startrail::run
