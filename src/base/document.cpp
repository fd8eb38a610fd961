#include "base/document.hpp"

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <stdexcept>

// toml++ 3.3 asserts that keys begin well instead of saying so, and with NDEBUG it even assumes it: a malformed
// file would abort the program. Here a broken assertion is one more parse failure.
namespace startrail::base {
constexpr void toml_check(bool holds, const char* rule) {
  if (!holds) throw std::logic_error(rule);
}
}  // namespace startrail::base
#undef NDEBUG
#define TOML_ASSERT(rule) startrail::base::toml_check(static_cast<bool>(rule), #rule)
#define TOML_EXCEPTIONS 1
#include <toml++/toml.h>
#include <sstream>

#include "base/files.hpp"

namespace startrail::base {
namespace {

constexpr int k_deepest = 256;
constexpr int k_most_key_parts = 32;

// toml++ bounds brackets within brackets, but not dotted keys ("a.a.a = 1"), and a tree that is deep enough overflows
// the stack when it is freed. Counts dots as long as what lies between them can be one key.
bool has_endless_key(std::string_view text) {
  int parts = 0;
  char last = '\n';
  bool blank = false;
  for (const char c : text) {
    if (c == ' ' || c == '\t') {
      blank = true;
      continue;
    }
    const bool ends_key = std::string_view("\n,=[]{}#").find(c) != std::string_view::npos;
    if (ends_key || (c == '.' ? last == '.' : blank && last != '.')) parts = 0;
    if (c == '.' && ++parts > k_most_key_parts) return true;
    last = c;
    blank = false;
  }
  return false;
}

class TomlReader {
 public:
  Document document;

  Json convert(const toml::node& node, const std::string& pointer) {
    if (std::ranges::count(pointer, '/') > k_deepest) throw std::logic_error("nested too deeply");
    document.lines[pointer] = static_cast<int>(node.source().begin.line);
    if (const auto* table = node.as_table()) return convert_table(*table, pointer);
    if (const auto* array = node.as_array()) return convert_array(*array, pointer);
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* number = node.as_integer()) return number->get();
    if (const auto* number = node.as_floating_point()) return number->get();
    if (const auto* flag = node.as_boolean()) return flag->get();
    std::ostringstream text;
    if (const auto* date = node.as_date()) text << date->get();
    if (const auto* time = node.as_time()) text << time->get();
    if (const auto* moment = node.as_date_time()) text << moment->get();
    return text.str();
  }

 private:
  Json convert_table(const toml::table& table, const std::string& pointer) {
    Json object = Json::object();
    for (const auto& [key, value] : table) {
      const std::string name(key.str());
      object[name] = convert(value, pointer + "/" + pointer_token(name));
    }
    return object;
  }

  Json convert_array(const toml::array& array, const std::string& pointer) {
    Json list = Json::array();
    for (std::size_t i = 0; i < array.size(); ++i) list.push_back(convert(array[i], fmt::format("{}/{}", pointer, i)));
    return list;
  }
};

class YamlReader {
 public:
  Document document;

  // Depth is bounded because an alias may refer to its own ancestor's expansion many times over.
  Result<Json> convert(const YAML::Node& node, const std::string& pointer, int depth) {
    if (depth > 64 || ++m_nodes > 200000)
      return fail(ErrorCode::corrupt, "it is nested too deeply or expands to too many values");
    document.lines[pointer] = node.Mark().line + 1;
    if (node.IsMap()) return convert_map(node, pointer, depth);
    if (node.IsSequence()) {
      Json list = Json::array();
      for (std::size_t i = 0; i < node.size(); ++i)
        list.push_back(TRY(convert(node[i], fmt::format("{}/{}", pointer, i), depth + 1)));
      return list;
    }
    if (node.IsScalar()) return Json(node.Scalar());
    return Json(nullptr);
  }

 private:
  Result<Json> convert_map(const YAML::Node& node, const std::string& pointer, int depth) {
    Json object = Json::object();
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) continue;
      const std::string& name = entry.first.Scalar();
      object[name] = TRY(convert(entry.second, pointer + "/" + pointer_token(name), depth + 1));
    }
    return object;
  }

  int m_nodes = 0;
};

}  // namespace

std::string pointer_token(std::string_view key) {
  std::string result;
  for (const char c : key) {
    if (c == '~') {
      result += "~0";
    } else if (c == '/') {
      result += "~1";
    } else {
      result += c;
    }
  }
  return result;
}

int Document::line_of(const std::string& pointer) const {
  const auto found = lines.find(pointer);
  return found == lines.end() ? 0 : found->second;
}

Result<Document> parse_toml(std::string_view text, std::string_view name) {
  if (has_endless_key(text))
    return fail(ErrorCode::corrupt,
                fmt::format("{}: not valid TOML: a key has more than {} parts", name, k_most_key_parts));
  try {
    const toml::table table = toml::parse(text, name);
    TomlReader reader;
    reader.document.root = reader.convert(table, "");
    return std::move(reader.document);
  } catch (const toml::parse_error& failure) {
    return fail(ErrorCode::corrupt,
                fmt::format("{}:{}: not valid TOML: {}", name, failure.source().begin.line, failure.description()));
  } catch (const std::logic_error&) {
    return fail(ErrorCode::corrupt, fmt::format("{}: not valid TOML", name));
  }
}

Result<Document> parse_yaml(std::string_view text, std::string_view name) {
  try {
    const YAML::Node node = YAML::Load(std::string(text));
    YamlReader reader;
    auto root = reader.convert(node, "", 0);
    if (!root) return fail(ErrorCode::corrupt, fmt::format("{}: not usable YAML: {}", name, root.error().message));
    reader.document.root = std::move(*root);
    return std::move(reader.document);
  } catch (const YAML::Exception& failure) {
    return fail(ErrorCode::corrupt, fmt::format("{}:{}: not valid YAML: {}", name, failure.mark.line + 1, failure.msg));
  }
}

Result<Document> read_toml_file(const fs::path& file) {
  const std::string text = TRY(read_file(file, Bytes{64U << 20U}));
  return parse_toml(text, file.string());
}

Result<Document> read_yaml_file(const fs::path& file) {
  const std::string text = TRY(read_file(file, Bytes{16U << 20U}));
  return parse_yaml(text, file.string());
}

std::string toml_quote(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    switch (c) {
      case '"': quoted += "\\\""; break;
      case '\\': quoted += "\\\\"; break;
      case '\n': quoted += "\\n"; break;
      case '\r': quoted += "\\r"; break;
      case '\t': quoted += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
          quoted += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
        } else {
          quoted += c;
        }
    }
  }
  return quoted + "\"";
}

}  // namespace startrail::base
