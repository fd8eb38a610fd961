// Which of a folder's requirements files is meant.
#include <fmt/format.h>

#include <algorithm>

#include "project/requirement_line.hpp"
#include "project/requirements_file.hpp"
#include "project/text_scan.hpp"

namespace startrail::project {
namespace {

// Names of files for another purpose than running the code.
constexpr std::string_view k_side_purposes[] = {"dev", "test", "doc", "lint", "build", "ci", "style", "format"};
constexpr std::string_view k_main_purposes[] = {"train",   "base", "main", "core", "gpu",   "cuda",
                                                "runtime", "prod", "all",  "full", "common"};

bool is_requirements_name(std::string_view name) {
  const std::string lower = to_lower(name);
  return (lower.ends_with(".txt") || lower.ends_with(".in")) &&
         (lower.starts_with("requirement") || lower.ends_with("requirements.txt"));
}

int rank(std::string_view name) {
  const std::string lower = to_lower(name);
  if (lower == "requirements.txt") return 0;
  if (lower == "requirements.in" || lower == "requirement.txt") return 1;
  for (const std::string_view purpose : k_side_purposes)
    if (lower.find(purpose) != std::string::npos) return 9;
  if (lower.find("cpu") != std::string::npos) return 8;
  for (std::size_t i = 0; i < std::size(k_main_purposes); ++i)
    if (lower.find(k_main_purposes[i]) != std::string::npos) return 2;
  return 3;
}

std::vector<std::string> candidates(const Folder& folder) {
  std::vector<std::string> names;
  for (const std::string& name : folder.names())
    if (is_requirements_name(name) && folder.has_file(name)) names.push_back(name);
  std::ranges::stable_sort(names, {}, rank);
  if (!names.empty()) return names;
  for (const std::string& name : folder.names_in("requirements"))
    if ((name.ends_with(".txt") || name.ends_with(".in")) && folder.has_file("requirements/" + name))
      names.push_back(name);
  std::ranges::stable_sort(names, {}, rank);
  for (std::string& name : names) name = "requirements/" + name;
  return names;
}

// Packages that a training project's list names at least one of; a list of words or labels names none.
constexpr std::string_view k_telling[] = {"torch",          "tensorflow",   "jax",         "keras",
                                          "numpy",          "transformers", "torchvision", "pandas",
                                          "scipy",          "datasets",     "accelerate",  "scikit-learn",
                                          "tensorflow-gpu", "mxnet",        "lightning",   "pytorch-lightning"};

bool is_telling(const Requirement& requirement) {
  return std::ranges::find(k_telling, requirement.name) != std::end(k_telling);
}

// nullopt unless every line is a requirement of the index, and one of them is telling.
Reading read_as_list(const Folder& folder, const std::string& file) {
  auto text = folder.read_text(file);
  if (!text) return std::nullopt;  // any text file may lie here; this one is not a list
  Declaration declaration{.declared_by = DeclaredBy::requirement_list, .file = file};
  const auto lines = joined_lines(text->text);
  if (lines.size() > 500) return std::nullopt;
  for (const JoinedLine& line : lines) {
    auto requirement = parse_requirement(line.text, {.file = text->file, .line = line.line});
    if (!requirement || requirement->kind == SourceKind::directory) return std::nullopt;
    if (!take_interpreter(declaration, *requirement)) declaration.packages.push_back(std::move(*requirement));
  }
  if (std::ranges::none_of(declaration.packages, is_telling)) return std::nullopt;
  declaration.sources.push_back({.file = text->file, .sha256 = text->sha256});
  return declaration;
}

}  // namespace

Reading read_requirements(const Folder& folder) {
  const auto read_one = [&](const std::string& name) -> Result<Declaration> {
    Declaration declaration{.declared_by = DeclaredBy::requirements_txt, .file = name};
    TRY(RequirementsFileReader(folder, declaration).add_file(name, Role::packages));
    return declaration;
  };
  auto [taken, others] = TRY(first_that_declares(candidates(folder), read_one));
  if (!taken) return std::nullopt;
  std::erase_if(others, [&](const std::string& name) {
    return std::ranges::find(taken->sources, name, &SourceFile::file) != taken->sources.end();
  });
  if (!others.empty())
    taken->note({.file = taken->file}, fmt::format("{} {} not read; `-r FILE` chooses", enumerated(others),
                                                   others.size() == 1 ? "is" : "are"));
  return std::move(taken);
}

Reading read_requirement_list(const Folder& folder) {
  std::optional<Declaration> taken;
  for (const std::string& name : folder.names()) {
    if (!to_lower(name).ends_with(".txt") || name.starts_with('.') || !folder.has_file(name)) continue;
    auto declaration = TRY(read_as_list(folder, name));
    if (!declaration) continue;
    if (taken) return std::nullopt;  // two lists, and nothing says which is meant
    taken = std::move(declaration);
  }
  if (taken)
    taken->note({.file = taken->file},
                "every line is a requirement, so the file is read as the project's list of packages");
  return taken;
}

}  // namespace startrail::project
