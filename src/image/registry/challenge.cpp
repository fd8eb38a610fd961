#include "image/registry/challenge.hpp"

#include <algorithm>
#include <cctype>
#include <optional>

namespace startrail::image {
namespace {

// RFC 9110, 5.6.2.
bool is_token_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos;
}

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : m_rest(text) {}

  [[nodiscard]] bool at_end() const { return m_rest.empty(); }

  void skip(std::string_view letters) {
    m_rest.remove_prefix(std::min(m_rest.find_first_not_of(letters), m_rest.size()));
  }

  std::string_view token() {
    const auto end = std::ranges::find_if_not(m_rest, is_token_letter);
    const std::string_view found = m_rest.substr(0, static_cast<std::size_t>(end - m_rest.begin()));
    m_rest.remove_prefix(found.size());
    return found;
  }

  bool take(char wanted) {
    if (!m_rest.starts_with(wanted)) return false;
    m_rest.remove_prefix(1);
    return true;
  }

  std::string value() {
    if (!take('"')) return std::string(token());
    std::string text;
    while (!m_rest.empty() && !m_rest.starts_with('"')) {
      if (m_rest.starts_with('\\') && m_rest.size() > 1) m_rest.remove_prefix(1);
      text += m_rest.front();
      m_rest.remove_prefix(1);
    }
    take('"');
    return text;
  }

  void drop_letter() { m_rest.remove_prefix(std::min<std::size_t>(1, m_rest.size())); }

 private:
  std::string_view m_rest;
};

}  // namespace

std::vector<Challenge> parse_challenges(std::string_view header) {
  std::vector<Challenge> found;
  Reader reader(header);
  while (true) {
    reader.skip(" \t,");
    if (reader.at_end()) return found;
    const std::string word = lower(reader.token());
    if (word.empty()) {
      reader.drop_letter();
      continue;
    }
    reader.skip(" \t");
    // A word before "=" is a parameter of the scheme before it; any other begins a challenge.
    if (reader.take('=')) {
      reader.skip(" \t");
      std::string value = reader.value();
      if (!found.empty()) found.back().parameters[word] = std::move(value);
    } else {
      found.push_back({.scheme = word, .parameters = {}});
    }
  }
}

}  // namespace startrail::image
