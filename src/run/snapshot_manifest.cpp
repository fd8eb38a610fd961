#include "run/snapshot_manifest.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "run/snapshot.hpp"

namespace startrail::run {
namespace {

fs::path manifest_file(const fs::path& snapshots, const std::string& id) {
  return snapshots / "manifests" / (id + ".json");
}

bool is_digest(std::string_view text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

bool stays_inside(const std::string& text) {
  const fs::path path(text);
  if (text.empty() || path.is_absolute() || text.find('\0') != std::string::npos) return false;
  return path.lexically_normal().string() == text && *path.begin() != ".." && path.has_filename() && path != ".";
}

// Arrays rather than objects keyed by path: ordered JSON objects look a key up by walking.
Json entry_to_json(const Manifest::Entry& entry) {
  switch (entry.kind) {
    case Manifest::Kind::link: return {"link", entry.path, entry.target};
    case Manifest::Kind::executable: return {"executable", entry.path, entry.sha256, entry.size.count};
    default: return {"file", entry.path, entry.sha256, entry.size.count};
  }
}

Result<Manifest::Entry> entry_from_json(const Json& json) {
  const bool is_link = json.is_array() && json.size() == 3 && json[0] == "link";
  const bool is_file = json.is_array() && json.size() == 4 && json[3].is_number_unsigned();
  if ((!is_link && !is_file) || !json[0].is_string() || !json[1].is_string() || !json[2].is_string())
    return fail(ErrorCode::corrupt, "an entry of the snapshot is malformed");
  Manifest::Entry entry{.path = json[1].get<std::string>()};
  if (!stays_inside(entry.path))
    return fail(ErrorCode::corrupt, fmt::format("the snapshot's path `{}` would leave its folder", entry.path));
  if (is_link) {
    entry.kind = Manifest::Kind::link;
    entry.target = json[2].get<std::string>();
    return entry;
  }
  entry.kind = json[0] == "executable" ? Manifest::Kind::executable : Manifest::Kind::file;
  entry.sha256 = json[2].get<std::string>();
  entry.size = {json[3].get<std::uint64_t>()};
  if (!is_digest(entry.sha256)) return fail(ErrorCode::corrupt, fmt::format("{} has no digest", entry.path));
  return entry;
}

// Past the linear search that ordered_json's operator[] makes for each key; the paths are known to differ.
void append(Json& object, const std::string& key, Json value) {
  object.get_ref<Json::object_t&>().emplace_back(key, std::move(value));
}

}  // namespace

Bytes Manifest::size() const {
  Bytes total;
  for (const auto& entry : entries) total += entry.size;
  return total;
}

Result<std::string> write_manifest(const fs::path& snapshots, const Manifest& manifest) {
  Json entries = Json::array();
  for (const auto& entry : manifest.entries) entries.push_back(entry_to_json(entry));
  const std::string text =
      base::to_compact_text({{"version", 1}, {"entries", std::move(entries)}, {"omitted", manifest.omitted}}) + "\n";
  std::string id = base::sha256_hex(text);
  const fs::path file = manifest_file(snapshots, id);
  // By its size too: a power cut may have left the name of one whose bytes never came to the disk.
  struct stat status{};
  if (::stat(file.c_str(), &status) == 0 && static_cast<std::size_t>(status.st_size) == text.size()) return id;
  TRY(base::make_directories(file.parent_path(), 0700));
  TRY(base::write_file_atomic(file, text, 0600));
  return id;
}

Result<Manifest> read_manifest(const fs::path& snapshots, const std::string& id) {
  const fs::path file = manifest_file(snapshots, id);
  if (!is_digest(id) || ::access(file.c_str(), F_OK) != 0)
    return fail(ErrorCode::not_found, fmt::format("there is no snapshot `{}`", id));
  const std::string text = TRY(base::read_file(file));
  if (base::sha256_hex(text) != id)
    return fail(ErrorCode::corrupt, fmt::format("{} holds another text than its name says", file.string()));
  const Json json = TRY(base::parse_json(text, file.string()));
  Manifest manifest{.omitted = base::strings_at(json, "omitted")};
  for (const Json& entry : base::member(json, "entries"))
    manifest.entries.push_back(TRY_CONTEXT(entry_from_json(entry), "read from " + file.string()));
  return manifest;
}

Result<Json> snapshot_manifest(const fs::path& snapshots, const std::string& id) {
  const Manifest manifest = TRY(read_manifest(snapshots, id));
  Json files = Json::object();
  Json links = Json::object();
  for (const auto& entry : manifest.entries) {
    if (entry.kind == Manifest::Kind::link) {
      append(links, entry.path, entry.target);
    } else {
      append(files, entry.path, entry.sha256);
    }
  }
  return Json{{"id", id},
              {"files", std::move(files)},
              {"links", std::move(links)},
              {"omitted", manifest.omitted},
              {"size", manifest.size().count}};
}

}  // namespace startrail::run
