#include "image/registry/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "image/oci/documents.hpp"

namespace startrail::image {
namespace {

constexpr std::string_view k_scheme = "docker://";
constexpr std::string_view k_hub = "docker.io";
constexpr std::size_t k_longest_name = 255;
constexpr std::size_t k_longest_tag = 128;

bool is_lower(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}
bool is_upper(char c) {
  return c >= 'A' && c <= 'Z';
}
bool is_alphanumeric(char c) {
  return is_lower(c) || is_upper(c);
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// A user and a password are put before the host by mistake, and mustn't be repeated.
std::string without_user(std::string_view text) {
  const auto scheme = text.find("://");
  const auto host = text.substr(0, text.find('/', scheme == std::string_view::npos ? 0 : scheme + 3));
  const auto at = host.rfind('@');
  return at == std::string_view::npos ? std::string(text) : fmt::format("…{}", text.substr(at));
}

std::unexpected<Error> wrong(std::string_view text, const std::string& why) {
  return base::fail(
      base::error(ErrorCode::invalid_input, fmt::format("`{}` is no image reference: {}", without_user(text), why))
          .with_hint("for example: registry.example.com/team/model:1.0"));
}

// [a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*
bool is_path_part(std::string_view part) {
  if (part.empty() || !is_lower(part.front()) || !is_lower(part.back())) return false;
  for (std::size_t at = 0; at < part.size();) {
    if (is_lower(part[at])) {
      ++at;
      continue;
    }
    const std::size_t end = std::find_if(part.begin() + at, part.end(), is_lower) - part.begin();
    const std::string_view separator = part.substr(at, end - at);
    if (separator != "." && separator != "_" && separator != "__" &&
        separator.find_first_not_of('-') != std::string_view::npos)
      return false;
    at = end;
  }
  return true;
}

bool is_host_label(std::string_view label) {
  return !label.empty() && is_alphanumeric(label.front()) && is_alphanumeric(label.back()) &&
         std::ranges::all_of(label, [](char c) { return is_alphanumeric(c) || c == '-'; });
}

bool is_host_name(std::string_view name) {
  if (name.starts_with('['))
    return name.size() > 3 && name.ends_with(']') &&
           name.substr(1, name.size() - 2).find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
  while (true) {
    const auto dot = name.find('.');
    if (!is_host_label(name.substr(0, dot))) return false;
    if (dot == std::string_view::npos) return true;
    name.remove_prefix(dot + 1);
  }
}

struct HostAndPort {
  std::string_view name;
  std::optional<std::string_view> port;
};

HostAndPort split_host(std::string_view host) {
  const auto after_name = host.starts_with('[') ? host.find(']') : 0;
  const auto colon = host.find(':', after_name == std::string_view::npos ? 0 : after_name);
  if (colon == std::string_view::npos) return {host, std::nullopt};
  return {host.substr(0, colon), host.substr(colon + 1)};
}

std::optional<std::string> host_fault(std::string_view host) {
  const HostAndPort parts = split_host(host);
  if (host.find('@') != std::string_view::npos)
    return "credentials don't belong into it; `docker login` or `podman login` keeps them";
  if (!is_host_name(parts.name)) return fmt::format("the host `{}` is none", parts.name);
  if (!parts.port) return std::nullopt;
  int number = 0;
  const auto [end, code] = std::from_chars(parts.port->data(), parts.port->data() + parts.port->size(), number);
  if (code != std::errc() || end != parts.port->data() + parts.port->size() || number < 1 || number > 65535)
    return fmt::format("the port `{}` is none", *parts.port);
  return std::nullopt;
}

std::optional<std::string> repository_fault(std::string_view repository) {
  std::string_view rest = repository;
  while (true) {
    const auto slash = rest.find('/');
    const std::string_view part = rest.substr(0, slash);
    if (part.empty()) return "its path has an empty part";
    if (std::ranges::any_of(part, is_upper)) return fmt::format("`{}` must be in lower case", part);
    if (!is_path_part(part))
      return fmt::format("`{}` may hold letters, digits, and single separators (. _ -) between them", part);
    if (slash == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(slash + 1);
  }
}

std::optional<std::string> tag_fault(std::string_view tag) {
  if (tag.empty()) return "its tag is empty";
  if (tag.size() > k_longest_tag) return fmt::format("its tag is longer than {} letters", k_longest_tag);
  const bool right = (is_alphanumeric(tag.front()) || tag.front() == '_') && std::ranges::all_of(tag, [](char c) {
                       return is_alphanumeric(c) || c == '_' || c == '.' || c == '-';
                     });
  if (!right) return fmt::format("the tag `{}` may hold letters, digits, and _ . - behind the first one", tag);
  return std::nullopt;
}

bool is_host(std::string_view first) {
  return first == "localhost" || first.find_first_of(".:@[") != std::string_view::npos ||
         std::ranges::any_of(first, is_upper);
}

void split_off_host(std::string_view name, Reference& into) {
  const auto slash = name.find('/');
  const bool has_host = slash != std::string_view::npos && is_host(name.substr(0, slash));
  into.host = has_host ? name.substr(0, slash) : k_hub;
  into.repository = has_host ? name.substr(slash + 1) : name;
  if (into.host == "index.docker.io" || into.host == "registry-1.docker.io") into.host = k_hub;
  if (into.host == k_hub && into.repository.find('/') == std::string::npos)
    into.repository = "library/" + into.repository;
}

}  // namespace

std::string Reference::text() const {
  std::string text = place();
  if (!tag.empty()) text += ":" + tag;
  if (!digest.empty()) text += "@" + digest;
  return text;
}

Result<Reference> parse_reference(std::string_view text) {
  std::string_view rest = text;
  if (rest.starts_with(k_scheme)) rest.remove_prefix(k_scheme.size());
  if (rest.empty()) return wrong(text, "it is empty");
  if (rest.find("://") != std::string_view::npos) return wrong(text, "it names no web address but host/path:tag");
  Reference reference;
  // A host may have an @ only by mistake, a path never: the digest's is the last one.
  const auto at = rest.rfind('@');
  if (at != std::string_view::npos && rest.find('/', at) == std::string_view::npos) {
    reference.digest = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!is_digest(reference.digest))
      return wrong(text, fmt::format("the digest `{}` is not sha256: and 64 hex digits", reference.digest));
  }
  const auto last_slash = rest.rfind('/');
  const auto colon = rest.find(':', last_slash == std::string_view::npos ? 0 : last_slash);
  if (colon != std::string_view::npos) {
    reference.tag = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (const auto fault = tag_fault(reference.tag)) return wrong(text, *fault);
  }
  split_off_host(rest, reference);
  if (const auto fault = host_fault(reference.host)) return wrong(text, *fault);
  if (const auto fault = repository_fault(reference.repository)) return wrong(text, *fault);
  if (reference.place().size() > k_longest_name)
    return wrong(text, fmt::format("its name is longer than {} letters", k_longest_name));
  if (reference.tag.empty() && reference.digest.empty()) reference.tag = "latest";
  return reference;
}

bool names_a_registry(std::string_view text) {
  return text.starts_with(k_scheme) || (text.find('/') != std::string_view::npos && parse_reference(text).has_value());
}

std::string api_host(const std::string& host) {
  return host == k_hub ? "registry-1.docker.io" : host;
}

bool is_loopback(std::string_view host) {
  const std::string_view name = split_host(host).name;
  if (name == "localhost" || name == "[::1]") return true;
  return name.starts_with("127.") && std::ranges::all_of(name, [](char c) { return is_digit(c) || c == '.'; });
}

}  // namespace startrail::image
