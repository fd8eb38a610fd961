#include "app/circumstances.hpp"

#include <algorithm>
#include <cctype>

namespace startrail::app {
namespace {

bool is_seed_name(std::string name) {
  std::ranges::transform(name, name.begin(),
                         [](unsigned char c) { return c == '-' ? '_' : static_cast<char>(std::tolower(c)); });
  const auto start = name.find_first_not_of('_');
  name = start == std::string::npos ? "" : name.substr(start);
  return name == "seed" || name == "pythonhashseed" || name.ends_with("_seed") || name.ends_with(".seed");
}

}  // namespace

Json find_seeds(const std::vector<std::string>& command, const base::Environment& environment) {
  Json seeds = Json::object();
  for (const auto& [name, value] : environment)
    if (is_seed_name(name)) seeds[name] = value;
  for (std::size_t i = 0; i < command.size(); ++i) {
    const std::string& word = command[i];
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    if (!is_seed_name(name)) continue;
    if (equals != std::string::npos)
      seeds[name] = word.substr(equals + 1);
    else if (word.starts_with('-') && i + 1 < command.size())
      seeds[name] = command[i + 1];
  }
  return seeds;
}

Json image_in_words(const lock::Lock& lock) {
  const auto or_absent = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return Json{{"python", or_absent(lock.python)},       {"suite", or_absent(lock.suite)},
              {"framework", or_absent(lock.framework)}, {"framework_version", or_absent(lock.framework_version)},
              {"cuda", or_absent(lock.cuda)},           {"cudnn", or_absent(lock.cudnn)},
              {"nccl", or_absent(lock.nccl)},           {"build", lock.build == project::Build::cpu ? "cpu" : "gpu"},
              {"packages", lock.packages.size()}};
}

}  // namespace startrail::app
