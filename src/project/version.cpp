#include "project/version.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "project/text_scan.hpp"

namespace startrail::project {
namespace {

// PEP 440's spellings of pre-release kinds; longer words first, so that "alpha" isn't read as "a".
constexpr std::pair<std::string_view, char> k_pre_words[] = {
    {"alpha", 'a'}, {"beta", 'b'}, {"preview", 'c'}, {"pre", 'c'}, {"rc", 'c'}, {"a", 'a'}, {"b", 'b'}, {"c", 'c'}};

std::optional<unsigned long> take_number(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() && is_digit(text[length])) ++length;
  if (length == 0 || length > 18) return std::nullopt;
  unsigned long value = 0;
  for (const char c : text.substr(0, length)) value = value * 10 + static_cast<unsigned long>(c - '0');
  text.remove_prefix(length);
  return value;
}

bool take(std::string_view& text, std::string_view word) {
  if (!text.starts_with(word)) return false;
  text.remove_prefix(word.size());
  return true;
}

// An optional separator, one of `words`, an optional separator and an optional number (PEP 440, "Normalization").
std::optional<std::pair<std::string_view, unsigned long>> take_phase(std::string_view& text,
                                                                     std::initializer_list<std::string_view> words) {
  std::string_view rest = text;
  if (!rest.empty() && is_one_of(rest.front(), ".-_")) rest.remove_prefix(1);
  for (const std::string_view word : words) {
    std::string_view after = rest;
    if (!take(after, word)) continue;
    if (!after.empty() && is_one_of(after.front(), ".-_")) after.remove_prefix(1);
    const auto value = take_number(after);
    text = after;
    return std::pair{word, value.value_or(0)};
  }
  return std::nullopt;
}

std::vector<std::string_view> split_local(std::string_view local) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t dot = local.find('.');
    parts.push_back(local.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    local.remove_prefix(dot + 1);
  }
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, is_digit);
}

std::strong_ordering compare_numbers(std::string_view a, std::string_view b) {
  const auto strip = [](std::string_view text) {
    return text.substr(std::min(text.find_first_not_of('0'), text.size()));
  };
  a = strip(a);
  b = strip(b);
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a.compare(b) <=> 0;
}

// PEP 440, "Local version identifiers": numbers sort after words, a longer one after its own prefix.
std::strong_ordering compare_local(std::string_view a, std::string_view b) {
  if (a.empty() || b.empty()) return a.size() <=> b.size();
  const auto left = split_local(a);
  const auto right = split_local(b);
  for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
    const bool left_number = all_digits(left[i]);
    const bool right_number = all_digits(right[i]);
    if (left_number != right_number) return left_number ? std::strong_ordering::greater : std::strong_ordering::less;
    const auto order = left_number ? compare_numbers(left[i], right[i]) : left[i].compare(right[i]) <=> 0;
    if (order != 0) return order;
  }
  return left.size() <=> right.size();
}

std::strong_ordering compare_release(const std::vector<unsigned long>& a, const std::vector<unsigned long>& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const unsigned long left = i < a.size() ? a[i] : 0;
    const unsigned long right = i < b.size() ? b[i] : 0;
    if (left != right) return left <=> right;
  }
  return std::strong_ordering::equal;
}

}  // namespace

Result<Version> Version::parse(std::string_view text) {
  const auto refuse = [&] {
    return fail(ErrorCode::invalid_input, fmt::format("`{}` is not a version", quotable(text)));
  };
  const std::string lowered = to_lower(trimmed(text));
  std::string_view rest = lowered;
  Version version;
  take(rest, "v");
  if (const std::size_t mark = rest.find('!'); mark != std::string_view::npos) {
    const auto epoch = take_number(rest);
    if (!epoch || !take(rest, "!")) return refuse();
    version.m_epoch = *epoch;
  }
  do {
    const auto number = take_number(rest);
    if (!number) return refuse();
    version.m_release.push_back(*number);
  } while (rest.size() > 1 && rest[0] == '.' && is_digit(rest[1]) && take(rest, "."));

  if (const auto pre = take_phase(rest, {"alpha", "beta", "preview", "pre", "rc", "a", "b", "c"})) {
    version.m_pre_kind = std::ranges::find(k_pre_words, pre->first, &std::pair<std::string_view, char>::first)->second;
    version.m_pre = pre->second;
  }
  if (const auto post = take_phase(rest, {"post", "rev", "r"})) {
    version.m_post = post->second;
  } else if (rest.size() > 1 && rest[0] == '-' && is_digit(rest[1])) {
    rest.remove_prefix(1);  // "1.0-1" is an implicit post-release
    version.m_post = take_number(rest);
    if (!version.m_post) return refuse();
  }
  if (const auto dev = take_phase(rest, {"dev"})) version.m_dev = dev->second;
  if (take(rest, "+")) {
    if (!version.take_local(std::string(rest))) return refuse();
    rest = {};
  }
  if (!rest.empty()) return refuse();
  version.m_text = version.normal_form();
  return version;
}

// Separators become dots and numbers lose their leading zeros. False when a part is empty or has other characters.
bool Version::take_local(std::string local) {
  std::ranges::replace(local, '-', '.');
  std::ranges::replace(local, '_', '.');
  for (std::string_view part : split_local(local)) {
    if (part.empty() || !std::ranges::all_of(part, is_alphanumeric)) return false;
    while (all_digits(part) && part.size() > 1 && part.front() == '0') part.remove_prefix(1);
    m_local += (m_local.empty() ? "" : ".") + std::string(part);
  }
  return true;
}

std::string Version::public_text() const {
  std::string text = m_epoch != 0 ? fmt::format("{}!", m_epoch) : "";
  text += fmt::format("{}", fmt::join(m_release, "."));
  if (m_pre_kind != 0) text += fmt::format("{}{}", m_pre_kind == 'c' ? "rc" : std::string(1, m_pre_kind), m_pre);
  if (m_post) text += fmt::format(".post{}", *m_post);
  if (m_dev) text += fmt::format(".dev{}", *m_dev);
  return text;
}

std::string Version::normal_form() const {
  return m_local.empty() ? public_text() : public_text() + "+" + m_local;
}

Version Version::without_local() const {
  Version result = *this;
  result.m_local.clear();
  result.m_text = result.normal_form();
  return result;
}

bool Version::same_release(const Version& other) const {
  return m_epoch == other.m_epoch && compare_release(m_release, other.m_release) == 0;
}

bool Version::has_prefix(const Version& prefix) const {
  if (m_epoch != prefix.m_epoch) return false;
  for (std::size_t i = 0; i < prefix.m_release.size(); ++i)
    if ((i < m_release.size() ? m_release[i] : 0) != prefix.m_release[i]) return false;
  if (prefix.m_pre_kind != 0) return m_pre_kind == prefix.m_pre_kind && m_pre == prefix.m_pre;
  return true;
}

// The sort key of PEP 440: a bare dev-release sorts before every pre-release, the final one after them.
std::strong_ordering Version::operator<=>(const Version& other) const {
  if (m_epoch != other.m_epoch) return m_epoch <=> other.m_epoch;
  if (const auto order = compare_release(m_release, other.m_release); order != 0) return order;
  const auto phase = [](const Version& version) {
    if (version.m_pre_kind != 0) return static_cast<int>(version.m_pre_kind);
    return version.m_dev && !version.m_post ? 0 : 'z';
  };
  if (phase(*this) != phase(other)) return phase(*this) <=> phase(other);
  if (m_pre != other.m_pre) return m_pre <=> other.m_pre;
  if (m_post != other.m_post) return m_post <=> other.m_post;  // nullopt sorts first
  constexpr unsigned long none = std::numeric_limits<unsigned long>::max();
  if (m_dev != other.m_dev) return m_dev.value_or(none) <=> other.m_dev.value_or(none);
  return compare_local(m_local, other.m_local);
}

bool Version::operator==(const Version& other) const {
  return (*this <=> other) == 0;
}

}  // namespace startrail::project
