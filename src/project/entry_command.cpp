#include "project/entry_command.hpp"

#include <algorithm>

#include "project/python_imports.hpp"
#include "project/text_scan.hpp"

namespace startrail::project {

std::optional<Fact<std::vector<std::string>>> guessed_command(const Folder& folder) {
  std::vector<std::string> scripts;
  std::ptrdiff_t sources = 0;
  for (const std::string& name : folder.names()) {
    if (!name.ends_with(".py") || !folder.has_file(name)) continue;
    if (name != "setup.py") ++sources;
    if (name == "train.py" || name == "main.py") scripts.push_back(name);
  }
  if (scripts.size() != 1) return std::nullopt;
  const std::string& script = scripts.front();
  if (sources > 1) {
    const auto text = folder.read_text(script);
    if (!text || !has_main_guard(text->text)) return std::nullopt;
  }
  return Fact<std::vector<std::string>>{{"python", script}, {.file = script}};
}

std::optional<Fact<std::string>> framework_image(const Folder& folder) {
  for (const std::string& name : folder.names()) {
    if (to_lower(name).find("dockerfile") == std::string::npos || !folder.has_file(name)) continue;
    const auto text = folder.read_text(name);
    if (!text) continue;
    int number = 0;
    for (std::string_view line : split(text->text, '\n')) {
      ++number;
      line = trimmed(line);
      if (to_lower(line.substr(0, 5)) == "from ") line = trimmed(line.substr(5));
      while (line.starts_with("--")) line = trimmed(line.substr(std::min(line.find(' '), line.size())));
      const std::string_view image = line.substr(0, line.find_first_of(" \t"));
      for (const std::string_view framework :
           {"tensorflow/tensorflow:", "pytorch/pytorch:", "nvcr.io/nvidia/pytorch:", "nvcr.io/nvidia/tensorflow:"})
        if (image.starts_with(framework)) return Fact<std::string>{std::string(image), {.file = name, .line = number}};
    }
  }
  return std::nullopt;
}

}  // namespace startrail::project
