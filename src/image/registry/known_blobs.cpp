#include "image/registry/known_blobs.hpp"

#include <algorithm>

#include "base/files.hpp"
#include "base/json.hpp"

namespace startrail::image {
namespace {

// Of one blob so many repositories are remembered, and so many blobs of one host: it's a small file.
constexpr std::size_t k_repositories = 3;
constexpr std::size_t k_blobs = 2000;

fs::path file_of(const Store& store) {
  return store.folder("registries") / "blobs.json";
}

// {"host": [["sha256:…", "repository", …], …]}, the latest last. What can't be read is as good as nothing.
Json read(const Store& store) {
  auto known = base::read_json_file(file_of(store));
  return known && known->is_object() ? std::move(*known) : Json::object();
}

bool is_of(const Json& entry, const std::string& digest) {
  return entry.is_array() && !entry.empty() && entry[0] == digest;
}

Json with_repository(const Json& entry, const std::string& digest, const std::string& repository) {
  Json result = Json::array({digest});
  if (entry.is_array())
    for (std::size_t index = 1; index < entry.size(); ++index)
      if (entry[index].is_string() && entry[index] != repository) result.push_back(entry[index]);
  result.push_back(repository);
  while (result.size() > 1 + k_repositories) result.erase(1);
  return result;
}

}  // namespace

std::optional<std::string> repository_with(const Store& store, const Reference& except, const std::string& digest) {
  const Json known = read(store);
  const Json& blobs = base::member(known, except.host);
  if (!blobs.is_array()) return std::nullopt;
  for (const Json& entry : blobs) {
    if (!is_of(entry, digest)) continue;
    for (std::size_t index = entry.size(); index-- > 1;)
      if (entry[index].is_string() && entry[index] != except.repository) return entry[index].get<std::string>();
  }
  return std::nullopt;
}

Result<void> remember_blobs(const Store& store, const Reference& reference, const std::vector<std::string>& digests) {
  if (digests.empty()) return {};
  TRY(base::make_directories(store.folder("registries")));
  const auto lock = TRY(base::FileLock::acquire(store.folder("locks") / "registries.lock"));
  Json known = read(store);
  Json& blobs = known[reference.host];
  if (!blobs.is_array()) blobs = Json::array();
  for (const std::string& digest : digests) {
    const auto found = std::ranges::find_if(blobs, [&](const Json& entry) { return is_of(entry, digest); });
    Json entry = with_repository(found == blobs.end() ? Json() : *found, digest, reference.repository);
    if (found != blobs.end()) blobs.erase(found);
    blobs.push_back(std::move(entry));
  }
  while (blobs.size() > k_blobs) blobs.erase(blobs.begin());
  return base::write_file_atomic(file_of(store), base::to_compact_text(known));
}

}  // namespace startrail::image
