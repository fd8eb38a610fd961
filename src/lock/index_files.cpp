// PEP 503 (HTML) and PEP 691 (JSON) pages of one project.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/http.hpp"
#include "base/json.hpp"
#include "lock/index_settings.hpp"
#include "lock/lock.hpp"
#include "project/requirements.hpp"

namespace startrail::lock {
namespace {

constexpr Bytes k_largest_page{64ULL << 20U};

std::string unescaped(std::string_view html) {
  static constexpr std::array<std::pair<std::string_view, char>, 5> k_entities{
      {{"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#39;", '\''}}};
  std::string text;
  for (std::size_t at = 0; at < html.size();) {
    const auto entity = std::ranges::find_if(
        k_entities, [&](const auto& candidate) { return html.substr(at).starts_with(candidate.first); });
    text += entity == k_entities.end() ? html[at] : entity->second;
    at += entity == k_entities.end() ? 1 : entity->first.size();
  }
  return text;
}

// The value of one attribute of a tag's inside, quoted either way; nullopt when it has none.
std::optional<std::string> attribute(std::string_view tag, std::string_view name) {
  for (std::size_t at = 0; (at = tag.find(name, at)) != std::string_view::npos; at += name.size()) {
    const bool starts_word = at == 0 || std::isspace(static_cast<unsigned char>(tag[at - 1])) != 0;
    const auto rest = tag.substr(at + name.size());
    if (!starts_word) continue;
    if (rest.empty() || rest.front() != '=') return "";
    if (rest.size() < 2 || (rest[1] != '"' && rest[1] != '\'')) continue;
    const auto end = rest.find(rest[1], 2);
    if (end != std::string_view::npos) return unescaped(rest.substr(2, end - 2));
  }
  return std::nullopt;
}

std::string sha256_of_fragment(std::string_view url) {
  constexpr std::string_view k_key = "#sha256=";
  const auto at = url.find(k_key);
  return at == std::string_view::npos ? "" : std::string(url.substr(at + k_key.size(), 64));
}

std::string filename_of(std::string_view url) {
  url = url.substr(0, url.find_first_of("?#"));
  const auto slash = url.rfind('/');
  std::string name(slash == std::string_view::npos ? url : url.substr(slash + 1));
  // '+' of local versions is the one escape that occurs in file names.
  for (std::size_t at = 0; (at = name.find('%', at)) != std::string::npos; ++at)
    if (name.compare(at, 3, "%2B") == 0 || name.compare(at, 3, "%2b") == 0) name.replace(at, 3, "+");
  return name;
}

bool is_yanked(const Json& file) {
  const Json& value = base::member(file, "yanked");
  return value.is_string() || (value.is_boolean() && value.get<bool>());
}

Error unexpected_answer(const std::string& url, long status) {
  return base::error(ErrorCode::network,
                     fmt::format("{} answered {} for {}", base::host_of(url), status, base::without_credentials(url)))
      .with_hint("check the package index that uv or pip is configured with");
}

}  // namespace

std::string absolute_url(std::string_view base, std::string_view reference) {
  if (reference.find("://") != std::string_view::npos) return std::string(reference);
  const auto scheme = base.find("://");
  if (scheme == std::string_view::npos) return std::string(reference);
  if (reference.starts_with("//")) return std::string(base.substr(0, scheme + 1)) + std::string(reference);
  const auto path = std::min(base.find('/', scheme + 3), base.size());
  if (reference.starts_with('/')) return std::string(base.substr(0, path)) + std::string(reference);
  std::string directory(base.substr(0, std::min(base.find_first_of("?#"), base.size())));
  directory.erase(std::max(directory.rfind('/') + 1, path));
  if (!directory.ends_with('/')) directory += '/';
  while (reference.starts_with("../") || reference.starts_with("./")) {
    if (reference.starts_with("../") && directory.size() > path + 1)
      directory.erase(directory.rfind('/', directory.size() - 2) + 1);
    reference.remove_prefix(reference.find('/') + 1);
  }
  return directory + std::string(reference);
}

Result<std::vector<IndexFile>> parse_index_json(std::string_view text, const std::string& page_url) {
  const Json page = TRY(base::parse_json(text, base::without_credentials(page_url)));
  const Json& entries = base::member(page, "files");
  if (!entries.is_array())
    return fail(ErrorCode::corrupt, fmt::format("{} lists no files", base::without_credentials(page_url)));
  std::vector<IndexFile> files;
  for (const auto& entry : entries) {
    IndexFile file;
    file.artifact.filename = base::string_at(entry, "filename");
    file.artifact.url = absolute_url(page_url, base::string_at(entry, "url"));
    file.artifact.sha256 = base::string_at(base::member(entry, "hashes"), "sha256");
    file.artifact.size.count = static_cast<std::uint64_t>(std::max<std::int64_t>(0, base::integer_at(entry, "size")));
    file.requires_python = base::string_at(entry, "requires-python");
    file.yanked = is_yanked(entry) ? Yanked::yes : Yanked::no;
    if (!file.artifact.filename.empty()) files.push_back(std::move(file));
  }
  return files;
}

std::vector<IndexFile> parse_index_html(std::string_view text, const std::string& page_url) {
  std::vector<IndexFile> files;
  for (std::size_t at = 0; (at = text.find("<a", at)) != std::string_view::npos;) {
    const auto end = text.find('>', at);
    if (end == std::string_view::npos) break;
    const auto tag = text.substr(at + 2, end - at - 2);
    at = end + 1;
    const auto address = attribute(tag, "href");
    if (!address) continue;
    IndexFile file;
    file.artifact.sha256 = sha256_of_fragment(*address);
    file.artifact.url = absolute_url(page_url, address->substr(0, address->find('#')));
    file.artifact.filename = filename_of(*address);
    file.requires_python = attribute(tag, "data-requires-python").value_or("");
    file.yanked = attribute(tag, "data-yanked") ? Yanked::yes : Yanked::no;
    if (!file.artifact.filename.empty()) files.push_back(std::move(file));
  }
  return files;
}

Result<std::vector<IndexFile>> index_page(const std::string& index_url, const std::string& project) {
  std::string url = index_url;
  while (url.ends_with('/')) url.pop_back();
  url += "/" + project::normalized_name(project) + "/";
  // PEP 691, "Version + Format Selection".
  const auto response = TRY(base::http_get(
      {.url = url,
       .headers = {"Accept: application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, "
                   "text/html;q=0.01"},
       .limit = k_largest_page}));
  if (response.status == 404)
    return fail(ErrorCode::not_found,
                fmt::format("{} is not in the package index {}", project, base::host_of(index_url)));
  if (response.status != 200) return fail(unexpected_answer(url, response.status));
  const std::string page_url = response.final_url.empty() ? url : response.final_url;
  const auto type = response.headers.find("content-type");
  if (type != response.headers.end() && type->second.find("json") != std::string::npos)
    return parse_index_json(response.body, page_url);
  return parse_index_html(response.body, page_url);
}

Result<std::vector<Artifact>> index_files(const std::string& index_url, const std::string& project) {
  std::vector<Artifact> artifacts;
  for (auto& file : TRY(index_page(index_url, project))) artifacts.push_back(std::move(file.artifact));
  return artifacts;
}

}  // namespace startrail::lock
