#include "image/wheel_tree.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.hpp"
#include "base/json.hpp"
#include "image/record_file.hpp"

namespace startrail::image {
namespace {

Result<base::Sha256Digest> digest_from_hex(std::string_view hex) {
  base::Sha256Digest digest{};
  if (hex.size() != digest.size() * 2) return base::fail(ErrorCode::corrupt, "a digest of the wrong length");
  const auto value = [](char letter) -> int {
    if (letter >= '0' && letter <= '9') return letter - '0';
    if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
    return -1;
  };
  for (std::size_t index = 0; index < digest.size(); ++index) {
    const int high = value(hex[2 * index]);
    const int low = value(hex[2 * index + 1]);
    if (high < 0 || low < 0) return base::fail(ErrorCode::corrupt, "a digest that is not hexadecimal");
    digest[index] = static_cast<std::byte>(high * 16 + low);
  }
  return digest;
}

std::pair<std::string_view, std::string_view> split_scheme(std::string_view path) {
  const std::size_t slash = path.find('/');
  return {path.substr(0, slash), slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1)};
}

// Relative to lib/pythonX.Y/site-packages.
std::string record_path(std::string_view path, std::string_view python, std::string_view name) {
  const auto [scheme, rest] = split_scheme(path);
  return scheme == "site" ? std::string(rest) : "../../../" + environment_path(path, python, name);
}

}  // namespace

bool WheelTree::has_headers() const {
  return std::ranges::any_of(files, [](const TreeFile& file) { return file.path.starts_with("headers/"); });
}

std::string normalized_name(std::string_view name) {
  std::string result;
  for (const char letter : name) {
    const bool separator = letter == '-' || letter == '_' || letter == '.';
    if (!separator)
      result += static_cast<char>(letter >= 'A' && letter <= 'Z' ? letter - 'A' + 'a' : letter);
    else if (!result.ends_with('-'))
      result += '-';
  }
  return result;
}

std::string cache_tag(std::string python) {
  std::erase(python, '.');
  return "cpython-" + python;
}

std::string environment_path(std::string_view path, std::string_view python, std::string_view name) {
  const auto [scheme, rest] = split_scheme(path);
  if (scheme == "site") return fmt::format("lib/python{}/site-packages/{}", python, rest);
  if (scheme == "headers") return fmt::format("include/site/python{}/{}/{}", python, name, rest);
  // lib64 is a link to lib in a virtual environment.
  if (scheme == "data" && rest.starts_with("lib64/")) return fmt::format("lib/{}", rest.substr(6));
  if (scheme == "data") return std::string(rest);
  return std::string(path);
}

std::string record_text(const WheelTree& tree, std::string_view python, const std::vector<TreeFile>& additions) {
  std::vector<RecordLine> lines;
  const auto add = [&](const TreeFile& file) {
    lines.push_back({.path = record_path(file.path, python, tree.name),
                     .algorithm = "sha256",
                     .hash = base::to_base64url(file.digest),
                     .size = file.size});
  };
  const std::string record = "site/" + tree.dist_info + "/RECORD";
  for (const TreeFile& file : tree.files)
    if (file.path != record && !(python.empty() && file.path.starts_with("headers/"))) add(file);
  for (const TreeFile& file : additions) add(file);
  std::ranges::sort(lines, {}, &RecordLine::path);
  // A file cannot hold its own hash.
  lines.push_back({.path = tree.dist_info + "/RECORD", .algorithm = {}, .hash = {}, .size = {}});
  return to_text(lines);
}

Json to_json(const WheelTree& tree) {
  Json files = Json::array();
  for (const TreeFile& file : tree.files)
    files.push_back(Json::array({file.path, file.size, base::to_hex(file.digest), file.executable ? 1 : 0}));
  return Json{{"layout", 1},
              {"sha256", tree.sha256},
              {"filename", tree.filename},
              {"name", tree.name},
              {"version", tree.version},
              {"dist_info", tree.dist_info},
              {"size", tree.size},
              {"commands", tree.commands},
              {"top_level", tree.top_level},
              {"requires_dist", tree.requires_dist},
              {"files", std::move(files)}};  // [path, size, sha256, executable]
}

Result<WheelTree> read_wheel_tree(const fs::path& tree) {
  const fs::path file = tree / "meta.json";
  const Json json = TRY(base::read_json_file(file));
  WheelTree result{.sha256 = base::string_at(json, "sha256"),
                   .filename = base::string_at(json, "filename"),
                   .name = base::string_at(json, "name"),
                   .version = base::string_at(json, "version"),
                   .dist_info = base::string_at(json, "dist_info"),
                   .size = static_cast<std::uint64_t>(base::integer_at(json, "size")),
                   .files = {},
                   .commands = base::strings_at(json, "commands"),
                   .top_level = base::strings_at(json, "top_level"),
                   .requires_dist = base::strings_at(json, "requires_dist")};
  const auto damaged = [&] {
    return base::fail(base::error(ErrorCode::corrupt, fmt::format("{} is damaged", file.string()))
                          .with_hint("`trail image verify-store` shows what else is"));
  };
  const Json& files = base::member(json, "files");
  if (!files.is_array()) return damaged();
  result.files.reserve(files.size());
  for (const Json& line : files) {
    if (!line.is_array() || line.size() != 4 || !line[0].is_string() || !line[1].is_number_unsigned() ||
        !line[2].is_string() || !line[3].is_number())
      return damaged();
    auto digest = digest_from_hex(line[2].get_ref<const std::string&>());
    if (!digest) return damaged();
    result.files.push_back({.path = line[0].get<std::string>(),
                            .size = line[1].get<std::uint64_t>(),
                            .digest = *digest,
                            .executable = line[3].get<int>() != 0});
  }
  return result;
}

}  // namespace startrail::image
