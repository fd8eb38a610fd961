#include "catalog/rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "catalog/plain_toml.hpp"
#include "catalog_data.hpp"
#include "machine/versions.hpp"
#include "project/version.hpp"

namespace startrail::catalog {
namespace {

Combination row_from(const Json& file, const Json& item) {
  return {.framework = base::string_at(file, "framework"),
          .series = base::string_at(item, "series"),
          .newest = base::string_at(item, "newest"),
          .cuda = base::string_at(item, "cuda"),
          .cudnn = base::string_at(item, "cudnn"),
          .nccl = base::string_at(item, "nccl"),
          .pythons = base::strings_at(item, "pythons"),
          .driver_floor = base::string_at(item, "driver_floor"),
          .architectures = base::strings_at(item, "architectures"),
          .ptx = base::boolean_at(item, "ptx"),
          .glibc_floor = base::string_at(item, "glibc_floor"),
          .gpu_extra = base::string_at(item, "gpu_extra"),
          .gpu_extra_since = base::string_at(item, "gpu_extra_since"),
          .tag = {},
          .index = {},
          .cpu_index = base::string_at(file, "cpu_index"),
          .status = base::string_at(item, "status", base::string_at(file, "status")),
          .source = base::string_at(item, "source"),
          .torchvision = base::string_at(item, "torchvision")};
}

// cuDNN and NCCL of another CUDA's build are not known: better none than the default build's.
Combination build_of(const Combination& row, const Json& item) {
  Combination build = row;
  build.tag = base::string_at(item, "tag");
  build.cuda = base::string_at(item, "cuda");
  build.cudnn = build.nccl = "";
  build.driver_floor = base::string_at(item, "driver_floor");
  build.architectures = base::strings_at(item, "architectures");
  build.ptx = base::boolean_at(item, "ptx");
  build.index = base::string_at(item, "index");
  build.source = base::string_at(item, "source");
  return build;
}

Result<void> check_row(const Combination& row, std::string_view name) {
  if (row.framework.empty() || row.series.empty() || row.newest.empty() || row.pythons.empty() ||
      row.driver_floor.empty() || row.architectures.empty() || row.source.empty() ||
      row.tag.empty() != row.index.empty())
    return fail(ErrorCode::corrupt, fmt::format("{}: the row `{}` lacks a field", name, title(row)));
  return {};
}

std::vector<Combination> read_all() {
  std::vector<Combination> all;
  for (const auto& [name, toml] : k_catalog_files) {
    auto rows = parse_rows(toml, name);
    // The files are compiled in and a test reads each: what fails here can only be a fault of the build.
    if (rows) all.insert(all.end(), rows->begin(), rows->end());
  }
  return all;
}

std::string framework_of(std::string_view package) {
  if (package == "tensorflow-gpu" || package == "tensorflow-cpu") return "tensorflow";
  return package == "jaxlib" ? "jax" : std::string(package);
}

}  // namespace

bool is_newer(std::string_view left, std::string_view right) {
  return machine::older(right, left);
}

std::string title(const Combination& row) {
  return fmt::format("{} {}{}{}", row.framework, row.series, row.tag.empty() ? "" : "+", row.tag);
}

Result<std::vector<Combination>> parse_rows(std::string_view toml, std::string_view name) {
  const Json document = TRY(parse_plain_toml(toml, name));
  std::vector<Combination> rows;
  for (const Json& item : base::member(document, "row")) rows.push_back(row_from(document, item));
  const std::size_t plain = rows.size();
  for (const Json& item : base::member(document, "build"))
    for (const auto& series : base::strings_at(item, "series")) {
      const auto found = std::find_if(rows.begin(), rows.begin() + static_cast<std::ptrdiff_t>(plain),
                                      [&](const Combination& row) { return row.series == series; });
      if (found == rows.begin() + static_cast<std::ptrdiff_t>(plain))
        return fail(ErrorCode::corrupt, fmt::format("{}: a build names {}, which has no row", name, series));
      const Combination build = build_of(*found, item);
      rows.push_back(build);
    }
  for (const auto& row : rows) TRY(check_row(row, name));
  std::ranges::stable_sort(rows, [](const Combination& a, const Combination& b) {
    return a.series != b.series ? is_newer(a.series, b.series) : a.tag.empty() && !b.tag.empty();
  });
  return rows;
}

const std::vector<Combination>& combinations() {
  static const std::vector<Combination> s_all = read_all();
  return s_all;
}

Rows rows_of(std::string_view framework, std::string_view tag) {
  Rows rows;
  for (const auto& row : combinations())
    if (row.framework == framework && row.tag == tag) rows.push_back(&row);
  return rows;
}

const Combination* find(std::string_view framework, std::string_view version) {
  const auto parsed = project::Version::parse(version);
  if (!parsed || parsed->release().empty()) return nullptr;
  const auto& release = parsed->release();
  const std::string series = fmt::format("{}.{}", release[0], release.size() > 1 ? release[1] : 0);
  const Combination* found = nullptr;
  for (const auto& row : combinations()) {
    if (row.framework != framework_of(framework) || row.series != series) continue;
    if (row.tag == parsed->local()) return &row;
    if (row.tag.empty()) found = &row;
  }
  return found;
}

Json to_json(const Combination& row) {
  const auto text_or_null = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  return {{"framework", row.framework},
          {"series", row.series},
          {"newest", row.newest},
          {"cuda", text_or_null(row.cuda)},
          {"cudnn", text_or_null(row.cudnn)},
          {"nccl", text_or_null(row.nccl)},
          {"pythons", row.pythons},
          {"driver_floor", text_or_null(row.driver_floor)},
          {"architectures", row.architectures},
          {"ptx", row.ptx},
          {"glibc_floor", text_or_null(row.glibc_floor)},
          {"gpu_extra", text_or_null(row.gpu_extra)},
          {"gpu_extra_since", text_or_null(row.gpu_extra_since)},
          {"tag", text_or_null(row.tag)},
          {"index", text_or_null(row.index)},
          {"cpu_index", text_or_null(row.cpu_index)},
          {"torchvision", text_or_null(row.torchvision)},
          {"status", row.status},
          {"source", row.source}};
}

}  // namespace startrail::catalog
