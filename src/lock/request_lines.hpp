// What uv is asked for, as requirement and constraint lines, and the way back from a package's name to where it was
// read.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "catalog/catalog.hpp"
#include "project/requirements.hpp"

namespace startrail::lock {

// Names whose pins are widened, to see whether that would be a way out.
enum class Width {
  same_major,  // "==4.2.0.32" becomes ">=4.2.0.32,<5"
  any,
};
using Loosened = std::map<std::string, Width, std::less<>>;

// "-e ." of a setup.py: only a build can tell its name.
enum class NamelessFolders { included, left_out };

class Request {
 public:
  // `framework_origin` says where `framework` was read.
  Request(const project::Requirements& needs, const catalog::Choice& choice,
          const std::optional<std::string>& framework, const std::string& framework_origin = "--framework");

  // Lines for `uv pip compile`, sorted, so that the order in which things were read can't matter.
  // `folder` is where uv sees the project.
  [[nodiscard]] std::vector<std::string> requirement_lines(const std::filesystem::path& folder,
                                                           const Loosened& loosened,
                                                           NamelessFolders nameless = NamelessFolders::included) const;
  [[nodiscard]] std::vector<std::string> constraint_lines(const Loosened& loosened) const;

  // What was asked for under this name: from requirements first, then constraints; nullptr when nothing was.
  [[nodiscard]] const project::Requirement* find(std::string_view name) const;
  // "numpy==2.0.0 is read from requirements.txt:2": one for each requirement and constraint on `name`.
  [[nodiscard]] std::vector<std::string> origins(std::string_view name) const;
  // "torch<2.11: driver 535.183 runs CUDA up to 12"; "" when `requirement` is no bound of the catalog's.
  [[nodiscard]] std::string reason_of_bound(std::string_view requirement) const;

  [[nodiscard]] const std::vector<project::Requirement>& packages() const { return m_packages; }
  [[nodiscard]] const std::vector<project::Requirement>& constraints() const { return m_constraints; }
  [[nodiscard]] bool has_local_files() const;
  // Packages that come from folders, archives and repositories.
  [[nodiscard]] std::set<std::string> from_elsewhere() const;
  [[nodiscard]] bool has_nameless_folders() const;
  // Whether the folder at this path, relative to the project, was asked for as an editable.
  [[nodiscard]] project::Editable editable(const std::string& directory) const;

 private:
  std::vector<project::Requirement> m_packages, m_constraints;
  std::vector<catalog::Bound> m_bounds;
};

// The specifier that takes the place of `specifier`; "" for any version.
[[nodiscard]] std::string widened(std::string_view specifier, Width width);

}  // namespace startrail::lock
