#include "catalog/rows.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.hpp"
#include "catalog/plain_toml.hpp"
#include "catalog/pythons.hpp"
#include "machine/versions.hpp"
#include "project/version.hpp"

namespace startrail::catalog {
namespace {

constexpr std::string_view k_no_driver_rule = "";

std::vector<Source> sources_of(const Json& document) {
  std::vector<Source> sources;
  for (const Json& item : base::member(document, "source"))
    sources.push_back({.name = base::string_at(item, "name"),
                       .text = base::string_at(item, "text"),
                       .facts = base::strings_at(item, "facts")});
  return sources;
}

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
          .ptx_until = base::string_at(item, "ptx_until"),
          .glibc_floor = base::string_at(item, "glibc_floor"),
          .gpu_extra = base::string_at(item, "gpu_extra"),
          .gpu_extra_since = base::string_at(item, "gpu_extra_since"),
          .tag = base::string_at(item, "tag"),
          .index = base::string_at(item, "index"),
          .cpu_index = base::string_at(file, "cpu_index"),
          .status = "declared",
          .verified_on = {},
          .source = base::string_at(item, "source"),
          .torchvision = base::string_at(item, "torchvision"),
          .torchaudio = base::string_at(item, "torchaudio"),
          .numpy = base::string_at(item, "numpy"),
          .companions = base::strings_at(item, "companions"),
          .gpu_wheels = base::strings_at(item, "gpu_wheels"),
          .environment = base::strings_at(item, "environment"),
          .driver_rule = base::string_at(file, "driver_rule", k_no_driver_rule)};
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

// What choosing relies on; nullopt when the row has it.
std::optional<std::string_view> lacks(const Combination& row) {
  if (row.framework.empty()) return "framework";
  if (row.series.empty()) return "series";
  if (row.newest.empty()) return "newest";
  if (row.pythons.empty()) return "pythons";
  if (row.driver_floor.empty()) return "driver_floor";
  if (row.architectures.empty()) return "architectures";
  if (row.source.empty()) return "source";
  if (!row.tag.empty() && row.index.empty()) return "index";
  return std::nullopt;
}

bool are_numbers(const std::vector<std::string>& texts) {
  return std::ranges::all_of(texts, [](const auto& text) { return machine::version_numbers(text).size() == 2; });
}

std::optional<std::string> fault_of(const Combination& row) {
  if (const auto field = lacks(row)) return fmt::format("lacks the field `{}`", *field);
  if (!are_numbers({row.series})) return fmt::format("has the series `{}`, which is not like \"2.6\"", row.series);
  if (!row.newest.starts_with(row.series + "."))
    return fmt::format("has `newest = \"{}\"`, which is no release of {}", row.newest, row.series);
  if (!are_numbers(row.pythons)) return "has `pythons` that are not like \"3.11\"";
  if (!are_numbers(row.architectures)) return "has `architectures` that are not like \"8.6\"";
  if (machine::version_numbers(row.driver_floor).size() < 2)
    return fmt::format("has the driver floor `{}`, which is not like \"525.60.13\"", row.driver_floor);
  return std::nullopt;
}

// Reads one file; remembers the line of each row, for errors.
class Reader {
 public:
  Reader(const PlainToml& file, std::string_view name, std::span<const Combination> beside)
      : m_file(file),
        m_name(name),
        m_beside(beside),
        m_sources(std::make_shared<const std::vector<Source>>(sources_of(file.root))) {}

  Result<std::vector<Combination>> read() {
    const Json& rows = base::member(m_file.root, "row");
    for (std::size_t i = 0; i < rows.size(); ++i) TRY(take(row_from(m_file.root, rows[i]), line_of("row", i)));
    m_plain = m_rows.size();
    const Json& builds = base::member(m_file.root, "build");
    for (std::size_t i = 0; i < builds.size(); ++i) TRY(take_build(builds[i], line_of("build", i)));
    return std::move(m_rows);
  }

 private:
  [[nodiscard]] int line_of(const std::string& table, std::size_t index) const {
    return m_file.lines.at(table).at(index);
  }

  [[nodiscard]] std::unexpected<Error> bad(int line, const std::string& what) const {
    return fail(ErrorCode::corrupt, fmt::format("{}:{}: {}", m_name, line, what));
  }

  Result<void> take(Combination row, int line) {
    if (const auto fault = fault_of(row)) return bad(line, fmt::format("the row `{}` {}", title(row), *fault));
    row.file = m_name;
    row.sources = m_sources;
    m_rows.push_back(std::move(row));
    return {};
  }

  Result<void> take_build(const Json& item, int line) {
    for (const auto& series : base::strings_at(item, "series")) {
      const Combination* found = plain_row(series);
      if (found == nullptr) return bad(line, fmt::format("a build names {}, which has no row", series));
      TRY(take(build_of(*found, item), line));
    }
    return {};
  }

  [[nodiscard]] const Combination* plain_row(const std::string& series) const {
    const auto is_it = [&](const Combination& row) { return row.series == series && row.tag.empty(); };
    for (std::size_t i = 0; i < m_plain; ++i)
      if (is_it(m_rows[i])) return &m_rows[i];
    const std::string framework = base::string_at(m_file.root, "framework");
    for (const auto& row : m_beside)
      if (row.framework == framework && is_it(row)) return &row;
    return nullptr;
  }

  const PlainToml& m_file;
  std::string m_name;
  std::span<const Combination> m_beside;
  std::shared_ptr<const std::vector<Source>> m_sources;
  std::vector<Combination> m_rows;
  std::size_t m_plain = 0;
};

void sort_newest_first(std::vector<Combination>& rows) {
  std::ranges::stable_sort(rows, [](const Combination& a, const Combination& b) {
    return a.series != b.series ? is_newer(a.series, b.series) : a.tag.empty() && !b.tag.empty();
  });
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

bool has_python(const Combination& row, std::string_view minor) {
  if (std::ranges::find(row.pythons, minor) == row.pythons.end()) return false;
  const auto offer = std::ranges::find(offers(), minor, &Offer::minor);
  return offer == offers().end() || !machine::older(offer->glibc, row.glibc_floor);
}

Result<std::vector<Combination>> parse_rows(std::string_view toml, std::string_view name,
                                            std::span<const Combination> beside) {
  const PlainToml file = TRY(parse_plain_toml(toml, name));
  auto rows = TRY(Reader(file, name, beside).read());
  sort_newest_first(rows);
  return rows;
}

std::vector<Combination> with_own_rows(std::vector<Combination> compiled_in, std::vector<Combination> own) {
  for (auto& row : own) {
    row.provider = Provider::user;
    const auto same = std::ranges::find_if(compiled_in, [&](const Combination& other) {
      return other.framework == row.framework && other.series == row.series && other.tag == row.tag;
    });
    if (same == compiled_in.end())
      compiled_in.push_back(std::move(row));
    else
      *same = std::move(row);
  }
  std::ranges::stable_sort(compiled_in, {}, &Combination::framework);
  std::vector<Combination> all;
  while (!compiled_in.empty()) {
    const auto end = std::ranges::upper_bound(compiled_in, compiled_in.front().framework, {}, &Combination::framework);
    std::vector<Combination> group(std::make_move_iterator(compiled_in.begin()), std::make_move_iterator(end));
    compiled_in.erase(compiled_in.begin(), end);
    sort_newest_first(group);
    all.insert(all.end(), std::make_move_iterator(group.begin()), std::make_move_iterator(group.end()));
  }
  return all;
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

}  // namespace startrail::catalog
