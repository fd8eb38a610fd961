// The parts of pyproject.toml, each for the tool that wrote it.
#pragma once

#include "base/error.hpp"
#include "project/declaration.hpp"
#include "project/table_values.hpp"

namespace startrail::project {

// PEP 508 lines of a list, checked and appended to `target`.
[[nodiscard]] Result<void> add_requirement_lines(const Folder& folder, Declaration& declaration,
                                                 std::vector<Requirement>& target, const TableValue& list);

// [dependency-groups] (PEP 735), or [tool.poetry.group]: a group for people who work on the code, not for running it.
[[nodiscard]] bool is_side_group(std::string_view name);

// [tool.poetry]: dependencies, groups, sources.
[[nodiscard]] Result<void> add_poetry(const Folder& folder, Declaration& declaration, const TableValue& poetry);
// "^1.2", "~1.2", "1.2.*", ">=1,<2" as PEP 440. Errors: invalid_input; `||` has no PEP 440 form.
// Rules: Poetry's documentation, "Dependency specification".
[[nodiscard]] Result<std::string> poetry_specifier(std::string_view constraint);

// [tool.uv]: indexes, sources, constraints.
[[nodiscard]] Result<void> add_uv(const Folder& folder, Declaration& declaration, const TableValue& uv);

// A dependency's table ({git = …, rev = …}, {path = …}, {url = …}) turned into kind and location, as uv, Poetry and
// Pipenv share it. A table that names no place changes nothing.
void take_location(Requirement& requirement, const TableValue& table);

}  // namespace startrail::project
