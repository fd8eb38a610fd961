#include "diagnose/checks.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>

#include "diagnose/check_table.hpp"

namespace startrail::diagnose {

Check find_check(std::string_view name) {
  for (const auto table : {gpu_checks(), host_checks(), memory_checks(), package_checks(), process_checks()}) {
    const auto found = std::ranges::find(table, name, &NamedCheck::name);
    if (found != table.end()) return found->check;
  }
  return nullptr;
}

std::string first_word(const Match& match, std::initializer_list<std::string_view> names) {
  for (const std::string_view name : names) {
    if (const auto word = match.words.find(name); word != match.words.end() && !word->second.empty())
      return word->second;
  }
  return {};
}

bool occurs(std::string_view text, std::string_view expression) {
  static std::mutex mutex;
  static std::map<std::string, Pattern, std::less<>> compiled;
  const std::scoped_lock lock(mutex);
  auto found = compiled.find(expression);
  if (found == compiled.end()) {
    auto pattern = Pattern::compile(expression);
    if (!pattern) return false;
    found = compiled.emplace(expression, std::move(*pattern)).first;
  }
  return found->second.find(text).has_value();
}

}  // namespace startrail::diagnose
