#include "image/wheel_finish.hpp"

#include <fmt/format.h>
#include <openssl/evp.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <unordered_map>

#include <unistd.h>

#include "base/json.hpp"
#include "image/entry_points.hpp"
#include "image/record_file.hpp"
#include "project/version.hpp"

namespace startrail::image {
namespace {

using Files = std::vector<TreeFile>;

// "Name: value" lines of METADATA and WHEEL (RFC 5322 headers) up to the first empty line.
std::vector<std::string> header_values(std::string_view text, std::string_view name) {
  std::vector<std::string> values;
  while (!text.empty() && text.front() != '\n' && text.front() != '\r') {
    const std::size_t stop = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, stop);
    text.remove_prefix(std::min(stop + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.size() <= name.size() || line[name.size()] != ':' || !line.starts_with(name)) continue;
    line.remove_prefix(name.size() + 1);
    while (line.starts_with(' ')) line.remove_prefix(1);
    values.emplace_back(line);
  }
  return values;
}

std::string first_of(const std::vector<std::string>& values) {
  return values.empty() ? "" : values.front();
}

bool same_version(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto left = project::Version::parse(a);
  const auto right = project::Version::parse(b);
  return left && right && *left == *right;
}

// These sign RECORD, so it cannot hold their hashes.
bool is_exempt(std::string_view name, std::string_view dist_info) {
  if (!name.starts_with(dist_info)) return false;
  const std::string_view file = name.substr(dist_info.size());
  return file == "/RECORD" || file == "/RECORD.jws" || file == "/RECORD.p7s";
}

// Stronger hashes than SHA-256 are allowed but were not computed on the way.
Result<std::string> other_hash(const Unpacking& wheel, std::size_t index, const std::string& algorithm) {
  const EVP_MD* method = algorithm == "sha384" ? EVP_sha384() : algorithm == "sha512" ? EVP_sha512() : nullptr;
  const std::string& target = wheel.layout.placements[index].target;
  if (method == nullptr || target.empty())
    return base::fail(ErrorCode::corrupt, fmt::format("RECORD gives '{}' a hash of kind {}, which wheels may not use",
                                                      wheel.entries[index].name, algorithm));
  const std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context(EVP_MD_CTX_new(), EVP_MD_CTX_free);
  EVP_DigestInit_ex(context.get(), method, nullptr);
  const base::Fd fd = TRY(wheel.root->open_for_reading(target));
  std::vector<char> buffer(256U << 10U);
  for (ssize_t count = 0; (count = ::read(fd.get(), buffer.data(), buffer.size())) != 0;) {
    if (count < 0 && errno != EINTR) return base::fail(base::errno_error("cannot read " + target, errno));
    if (count > 0) EVP_DigestUpdate(context.get(), buffer.data(), static_cast<std::size_t>(count));
  }
  std::array<std::byte, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  EVP_DigestFinal_ex(context.get(), reinterpret_cast<unsigned char*>(digest.data()), &length);
  return base::to_base64url(std::span(digest).first(length));
}

Result<void> compare(const Unpacking& wheel, std::size_t index, const RecordLine& line) {
  const ZipEntry& entry = wheel.entries[index];
  if (line.hash.empty() && is_exempt(entry.name, wheel.layout.dist_info)) return {};
  if (line.hash.empty()) return base::fail(ErrorCode::corrupt, fmt::format("RECORD has no hash of '{}'", entry.name));
  const std::string actual = line.algorithm == "sha256" ? base::to_base64url(wheel.digests[index])
                                                        : TRY(other_hash(wheel, index, line.algorithm));
  if (actual != line.hash || (line.size && *line.size != entry.size))
    return base::fail(ErrorCode::hash_mismatch, fmt::format("'{}' differs from what RECORD says", entry.name));
  return {};
}

// Every file is in RECORD with its hash, and everything in RECORD is there.
Result<void> check_record(const Unpacking& wheel) {
  const auto text = wheel.root->read(k_wheel_record);
  if (!text) return base::fail(ErrorCode::corrupt, "it has no RECORD");
  std::unordered_map<std::string, RecordLine> lines;
  for (RecordLine& line : TRY(parse_record(*text))) {
    std::string path = line.path;
    if (!lines.emplace(path, std::move(line)).second)
      return base::fail(ErrorCode::corrupt, fmt::format("RECORD lists '{}' twice", path));
  }
  for (std::size_t index = 0; index < wheel.entries.size(); ++index) {
    const ZipEntry& entry = wheel.entries[index];
    if (entry.is_folder()) continue;
    const auto found = lines.find(entry.name);
    if (found != lines.end()) {
      TRY(compare(wheel, index, found->second));
      lines.erase(found);
    } else if (!is_exempt(entry.name, wheel.layout.dist_info)) {
      return base::fail(ErrorCode::corrupt, fmt::format("'{}' is not in RECORD", entry.name));
    }
  }
  // A folder's line says nothing about content; some tools write them.
  std::erase_if(lines, [](const auto& line) { return line.first.ends_with('/'); });
  if (!lines.empty())
    return base::fail(ErrorCode::corrupt, fmt::format("RECORD lists '{}', which is not there", lines.begin()->first));
  return {};
}

Files unpacked_files(const Unpacking& wheel) {
  Files files;
  for (std::size_t index = 0; index < wheel.entries.size(); ++index) {
    const Placement& placement = wheel.layout.placements[index];
    if (wheel.entries[index].is_folder() || placement.target.empty() || placement.target == k_wheel_record) continue;
    files.push_back({.path = placement.target,
                     .size = wheel.entries[index].size,
                     .digest = wheel.digests[index],
                     .executable = placement.executable});
  }
  return files;
}

TreeFile describe(std::string path, std::string_view content, bool executable) {
  base::Sha256 hash;
  hash.update(content);
  return {.path = std::move(path), .size = content.size(), .digest = hash.finish(), .executable = executable};
}

Result<void> add_file(const Unpacking& wheel, Files& files, TreeFile file, std::string_view content) {
  TRY(wheel.root->write(file.path, content, file.executable ? 0555 : 0444));
  files.push_back(std::move(file));
  return {};
}

// "#!python" and "#!pythonw" become the environment's interpreter (Binary distribution format, "Recommended
// installer features"); options behind it stay.
Result<void> rewrite_scripts(const Unpacking& wheel, Files& files) {
  for (const Placement& placement : wheel.layout.placements) {
    if (!placement.is_script || placement.target.empty() || placement.target.ends_with('/')) continue;
    const base::Fd fd = TRY(wheel.root->open_for_reading(placement.target));
    std::array<char, 8> start{};
    if (::pread(fd.get(), start.data(), start.size(), 0) != static_cast<ssize_t>(start.size()) ||
        std::string_view(start.data(), start.size()) != "#!python")
      continue;
    const std::string content = TRY(wheel.root->read(placement.target));
    const std::size_t rest = content.starts_with("#!pythonw") ? 9 : 8;
    const std::string rewritten = fmt::format("#!{}{}", k_interpreter, std::string_view(content).substr(rest));
    TRY(wheel.root->remove_file(placement.target));
    std::erase_if(files, [&](const TreeFile& file) { return file.path == placement.target; });
    TRY(add_file(wheel, files, describe(placement.target, rewritten, true), rewritten));
  }
  return {};
}

bool has_path(const Files& files, std::string_view path) {
  return std::ranges::find(files, path, &TreeFile::path) != files.end();
}

Result<void> add_commands(const Unpacking& wheel, const std::string& info, Files& files, WheelTree& tree) {
  const std::string announced = info + "entry_points.txt";
  if (!has_path(files, announced)) return {};
  for (const EntryPoint& entry : TRY(parse_entry_points(TRY(wheel.root->read(announced))))) {
    const std::string path = "bin/" + entry.name;
    TRY(check_environment_path(path));
    if (std::ranges::find(tree.commands, entry.name) != tree.commands.end())
      continue;  // console and gui script of one name
    if (has_path(files, path))
      return base::fail(ErrorCode::corrupt, fmt::format("the command '{}' is also a script", entry.name));
    const std::string script = script_text(entry, k_interpreter);
    TRY(wheel.root->make_folder("bin"));
    TRY(add_file(wheel, files, describe(path, script, true), script));
    tree.commands.push_back(entry.name);
  }
  return {};
}

Result<void> read_metadata(const Unpacking& wheel, const std::string& info, const WheelIdentity& identity,
                           WheelTree& tree) {
  const auto format = wheel.root->read(info + "WHEEL");
  if (!format) return base::fail(ErrorCode::corrupt, "it has no WHEEL file");
  const std::string version = first_of(header_values(*format, "Wheel-Version"));
  if (!version.starts_with("1."))
    return base::fail(ErrorCode::unsupported,
                      fmt::format("it is of wheel format '{}'; this program knows 1.x", version));
  const auto metadata = wheel.root->read(info + "METADATA");
  if (!metadata) return base::fail(ErrorCode::corrupt, "it has no METADATA file");
  tree.name = first_of(header_values(*metadata, "Name"));
  tree.version = first_of(header_values(*metadata, "Version"));
  tree.requires_dist = header_values(*metadata, "Requires-Dist");
  for (const std::string& name : {tree.name, wheel.layout.name})
    if (normalized_name(name) != normalized_name(identity.name))
      return base::fail(ErrorCode::conflict,
                        fmt::format("it calls itself '{}', the lock calls it '{}'", name, identity.name));
  if (!identity.version.empty() && !same_version(tree.version, identity.version))
    return base::fail(ErrorCode::conflict,
                      fmt::format("it says it is version '{}', the lock says {}", tree.version, identity.version));
  return {};
}

std::vector<std::string> top_level_names(const Files& files, std::string_view dist_info) {
  std::set<std::string> names;
  for (const TreeFile& file : files) {
    if (!file.path.starts_with("site/")) continue;
    const std::string_view inside = std::string_view(file.path).substr(5);
    const std::string_view top = inside.substr(0, inside.find('/'));
    if (top != dist_info) names.emplace(top);
  }
  return {names.begin(), names.end()};
}

}  // namespace

Result<WheelTree> finish_wheel(const Unpacking& wheel, const WheelIdentity& identity) {
  TRY(check_record(wheel));
  TRY(wheel.root->remove_file(k_wheel_record));
  WheelTree tree{.sha256 = identity.sha256,
                 .filename = identity.filename,
                 .name = {},
                 .version = {},
                 .dist_info = wheel.layout.dist_info};
  const std::string info = "site/" + wheel.layout.dist_info + "/";
  TRY(read_metadata(wheel, info, identity, tree));
  Files files = unpacked_files(wheel);
  TRY(rewrite_scripts(wheel, files));
  TRY(add_commands(wheel, info, files, tree));
  TRY(add_file(wheel, files, describe(info + "INSTALLER", "trail\n", false), "trail\n"));
  tree.top_level = top_level_names(files, tree.dist_info);
  tree.files = files;
  // Headers lie in a folder named after the Python, so an image writes its own RECORD when there are some.
  const std::string record = record_text(tree, "");
  TRY(add_file(wheel, files, describe(info + "RECORD", record, false), record));
  std::ranges::sort(files, {}, &TreeFile::path);
  tree.files = std::move(files);
  for (const TreeFile& file : tree.files) tree.size += file.size;
  TRY(wheel.root->write("meta.json", base::to_compact_text(to_json(tree)), 0444));
  return tree;
}

}  // namespace startrail::image
