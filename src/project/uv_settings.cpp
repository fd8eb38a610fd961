// [tool.uv] of pyproject.toml. Format: uv's reference, "Settings".
#include <fmt/format.h>

#include <algorithm>

#include "project/marker.hpp"
#include "project/pyproject.hpp"
#include "project/requirements_file.hpp"

namespace startrail::project {
namespace {

bool is_true(const TableValue& value) {
  return value.json().is_boolean() && value.json().get<bool>();
}

std::map<std::string, std::string> add_indexes(Declaration& declaration, const TableValue& uv) {
  std::map<std::string, std::string> by_name;
  const TableValue list = uv.at("index");
  for (std::size_t i = 0; list.is_list() && i < list.size(); ++i) {
    const TableValue index = list.at(i);
    const Fact<std::string> url{index.at("url").text(), index.at("url").origin()};
    if (url.value.empty()) continue;
    if (index.at("name").is_text()) by_name[index.at("name").text()] = url.value;
    if (is_true(index.at("explicit"))) continue;
    if (is_true(index.at("default"))) {
      declaration.indexes.index_url = url;
    } else {
      declaration.indexes.extra_index_urls.push_back(url);
    }
  }
  if (uv.at("index-url").is_text()) declaration.indexes.index_url = uv.at("index-url").texts().front();
  std::ranges::copy(uv.at("extra-index-url").texts(), std::back_inserter(declaration.indexes.extra_index_urls));
  std::ranges::copy(uv.at("find-links").texts(), std::back_inserter(declaration.indexes.find_links));
  if (is_true(uv.at("no-index"))) declaration.indexes.no_index = uv.at("no-index").origin();
  if (uv.at("prerelease").text() == "allow") declaration.indexes.prereleases = uv.at("prerelease").origin();
  return by_name;
}

// Of several sources the one that can hold on Linux.
std::optional<TableValue> source_for_linux(const TableValue& source) {
  if (source.is_table()) return source;
  for (std::size_t i = 0; source.is_list() && i < source.size(); ++i) {
    const auto marker = Marker::parse(source.at(i).at("marker").text());
    if (marker && marker->evaluate(linux_environment()) != Truth::no) return source.at(i);
  }
  return std::nullopt;
}

Result<void> add_source(const Folder& folder, Declaration& declaration, const std::string& package,
                        const TableValue& source, const std::map<std::string, std::string>& indexes) {
  if (source.at("index").is_text()) {
    const std::string name = source.at("index").text();
    const auto found = indexes.find(name);
    if (found == indexes.end())
      return fail(error(ErrorCode::invalid_input, fmt::format("{}: {} is to come from an index `{}` that isn't defined",
                                                              to_text(source.origin()), package, name))
                      .with_hint(fmt::format("add [[tool.uv.index]] with name = \"{}\" and its url", name)));
    declaration.indexes.package_index[package] = found->second;
    return {};
  }
  std::vector<Requirement> kept;
  for (Requirement& requirement : declaration.packages) {
    if (requirement.name != package) {
      kept.push_back(std::move(requirement));
    } else if (is_true(source.at("workspace"))) {
      declaration.note(
          source.origin(),
          fmt::format("{} is a member of the uv workspace and used where it is; what it needs is not read", package));
    } else {
      take_location(requirement, source);
      if (TRY(check_path(folder, declaration, requirement))) kept.push_back(std::move(requirement));
    }
  }
  declaration.packages = std::move(kept);
  return {};
}

}  // namespace

Result<void> add_uv(const Folder& folder, Declaration& declaration, const TableValue& uv) {
  const auto indexes = add_indexes(declaration, uv);
  const TableValue sources = uv.at("sources");
  for (const std::string& package : sources.keys())
    if (const auto source = source_for_linux(sources.at(package)))
      TRY(add_source(folder, declaration, normalized_name(package), *source, indexes));
  TRY(add_requirement_lines(folder, declaration, declaration.constraints, uv.at("constraint-dependencies")));
  if (uv.at("override-dependencies").present())
    declaration.note(uv.at("override-dependencies").origin(), "override-dependencies are not followed");
  return {};
}

}  // namespace startrail::project
