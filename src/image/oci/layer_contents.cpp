#include "image/oci/layer_contents.hpp"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include <unistd.h>

#include "base/json.hpp"

namespace startrail::image {
namespace {

using Kind = LayerEntry::Kind;
constexpr std::array<std::string_view, 6> k_kinds{"file", "folder", "symlink", "link", "whiteout", "opaque"};

std::optional<Kind> kind_named(std::string_view name) {
  for (std::size_t i = 0; i < k_kinds.size(); ++i)
    if (k_kinds[i] == name) return static_cast<Kind>(i);
  return std::nullopt;
}

Json to_json(const LayerEntry& entry) {
  Json line = Json::array({k_kinds[static_cast<std::size_t>(entry.kind)], entry.path});
  if (entry.kind == Kind::file)
    line.insert(line.end(), {entry.mode, entry.modified, entry.size, entry.digest, entry.number});
  if (entry.kind == Kind::folder) line.insert(line.end(), {entry.mode, entry.modified});
  if (entry.kind == Kind::symlink) line.insert(line.end(), {entry.modified, entry.target});
  if (entry.kind == Kind::hard_link) line.push_back(entry.target);
  return line;
}

Result<LayerEntry> entry_from(const Json& line) {
  const auto kind = kind_named(line.at(0).get<std::string>());
  if (!kind) return base::fail(ErrorCode::corrupt, "an entry of no kind");
  LayerEntry entry{.kind = *kind, .path = line.at(1).get<std::string>(), .digest = {}, .target = {}};
  if (*kind == Kind::file || *kind == Kind::folder) {
    entry.mode = line.at(2).get<mode_t>();
    entry.modified = line.at(3).get<std::int64_t>();
  }
  if (*kind == Kind::file) {
    entry.size = line.at(4).get<std::uint64_t>();
    entry.digest = line.at(5).get<std::string>();
    entry.number = line.at(6).get<unsigned>();
  }
  if (*kind == Kind::symlink) {
    entry.modified = line.at(2).get<std::int64_t>();
    entry.target = line.at(3).get<std::string>();
  }
  if (*kind == Kind::hard_link) entry.target = line.at(2).get<std::string>();
  return entry;
}

}  // namespace

std::string contents_text(const LayerContents& contents) {
  Json entries = Json::array();
  for (const LayerEntry& entry : contents.entries) entries.push_back(to_json(entry));
  return base::to_compact_text(Json{{"layout", 1},
                                    {"diff_id", contents.diff_id},
                                    {"size", contents.size},
                                    {"skipped", contents.skipped},
                                    {"entries", std::move(entries)}});
}

Result<LayerContents> read_contents(const Store& store, const std::string& diff_id) {
  const fs::path file = store.layer(diff_id) / "contents.json";
  const Json json = TRY(base::read_json_file(file));
  LayerContents contents{.diff_id = base::string_at(json, "diff_id"),
                         .size = static_cast<std::uint64_t>(base::integer_at(json, "size")),
                         .entries = {},
                         .skipped = base::strings_at(json, "skipped")};
  try {
    for (const Json& line : json.at("entries")) contents.entries.push_back(TRY(entry_from(line)));
  } catch (const Json::exception&) {
    contents.diff_id.clear();
  }
  if (store.layer(contents.diff_id) != store.layer(diff_id))
    return base::fail(base::error(ErrorCode::corrupt, fmt::format("{} is damaged", file.string()))
                          .with_hint("`trail image verify-store --repair` takes it out"));
  return contents;
}

bool has_layer(const Store& store, const std::string& diff_id) {
  return ::access((store.layer(diff_id) / "contents.json").c_str(), F_OK) == 0;
}

fs::path layer_file(const Store& store, const std::string& diff_id, unsigned number) {
  return store.layer(diff_id) / "files" / std::to_string(number);
}

}  // namespace startrail::image
