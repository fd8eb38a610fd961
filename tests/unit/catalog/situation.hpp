// Projects and machines in a line, for tables of cases.
#pragma once

#include <string>
#include <vector>

#include "catalog/catalog.hpp"
#include "machine/versions.hpp"
#include "project/requirements.hpp"

namespace startrail::catalog {

// "torch==1.12.1+cu113" → a requirement read from requirements.txt, lines counted from 1.
inline project::Requirements project_with(const std::vector<std::string>& lines, const std::string& python = "") {
  project::Requirements needs;
  needs.declared_by = project::DeclaredBy::requirements_txt;
  int number = 0;
  for (const auto& line : lines) {
    project::Requirement requirement;
    std::string text = line;
    if (const auto marker = text.find(';'); marker != std::string::npos) {
      requirement.marker = text.substr(marker + 1);
      text.resize(marker);
    }
    if (const auto open = text.find('['); open != std::string::npos) {
      requirement.extras = {text.substr(open + 1, text.find(']') - open - 1)};
      text.erase(open, text.find(']') - open + 1);
    }
    const auto end = std::min(text.find_first_of("=<>!~"), text.size());
    requirement.name = text.substr(0, end);
    requirement.specifier = text.substr(end);
    requirement.as_written = line;
    requirement.origin = {.file = "requirements.txt", .line = ++number};
    needs.packages.push_back(std::move(requirement));
  }
  if (!python.empty()) needs.python = {.value = python, .origin = {.file = "environment.yml", .line = 4}};
  return needs;
}

inline machine::Gpu gpu(const std::string& capability, const std::string& name, int index = 0) {
  const auto numbers = machine::version_numbers(capability);
  machine::Gpu result;
  result.index = index;
  result.name = name;
  result.compute_major = static_cast<int>(numbers.at(0));
  result.compute_minor = static_cast<int>(numbers.at(1));
  return result;
}

// "" for a machine without a driver; capabilities of its GPUs.
inline machine::Machine machine_with(const std::string& driver, const std::vector<std::string>& capabilities = {}) {
  machine::Machine machine;
  if (!driver.empty()) machine.driver = {.version = driver, .cuda = "", .read_from = "/proc/driver/nvidia/version"};
  for (const auto& capability : capabilities)
    machine.gpus.push_back(gpu(capability, "GPU-" + capability, static_cast<int>(machine.gpus.size())));
  return machine;
}

inline std::vector<std::string> lines_of(const std::vector<Bound>& bounds, const std::string& framework) {
  std::vector<std::string> lines;
  for (const auto& bound : bounds)
    if (bound.requirement.starts_with(framework) &&
        std::string("<>!=").find(bound.requirement.at(framework.size())) != std::string::npos)
      lines.push_back(bound.requirement);
  return lines;
}

inline std::vector<std::string> minors_of(const Choice& choice) {
  std::vector<std::string> minors;
  for (const auto& python : choice.pythons) minors.push_back(python.minor);
  return minors;
}

}  // namespace startrail::catalog
