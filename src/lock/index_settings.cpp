#include "lock/index_settings.hpp"

#include <algorithm>
#include <cctype>
#include <map>
#include <sstream>

#include "base/document.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "build_configuration.hpp"
#include "project/text_scan.hpp"

namespace startrail::lock {
namespace {

using project::trimmed;

std::vector<std::string> words_of(std::string_view text, std::string_view separators = " \t\r\n") {
  std::vector<std::string> words;
  for (std::size_t at = 0; (at = text.find_first_not_of(separators, at)) != std::string_view::npos;) {
    const auto end = std::min(text.find_first_of(separators, at), text.size());
    words.emplace_back(text.substr(at, end - at));
    at = end;
  }
  return words;
}

void append(std::vector<std::string>& list, const std::vector<std::string>& more) {
  for (const auto& item : more)
    if (std::ranges::find(list, item) == list.end()) list.push_back(item);
}

std::string variable(const base::Environment& environment, const std::string& name) {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : std::string(trimmed(found->second));
}

// "name=URL": uv's way of naming an index on the command line and in UV_INDEX.
std::string without_name(const std::string& index) {
  const auto equals = index.find('=');
  const auto scheme = index.find("://");
  return equals != std::string::npos && equals < scheme ? index.substr(equals + 1) : index;
}

using Section = std::map<std::string, std::string>;

// Python's configparser, as far as pip.conf uses it: values go on over indented lines.
std::map<std::string, Section> parse_ini(std::string_view text) {
  std::map<std::string, Section> sections;
  std::string section;
  std::string key;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    const std::string content(trimmed(line));
    if (content.empty() || content.front() == '#' || content.front() == ';') continue;
    if (content.front() == '[' && content.back() == ']') {
      section = content.substr(1, content.size() - 2);
      key.clear();
      continue;
    }
    if (std::isspace(static_cast<unsigned char>(line.front())) != 0 && !key.empty()) {
      sections[section][key] += "\n" + content;
      continue;
    }
    const auto separator = content.find_first_of("=:");
    if (separator == std::string::npos) continue;
    key = trimmed(std::string_view(content).substr(0, separator));
    std::ranges::replace(key, '_', '-');
    sections[section][key] = trimmed(std::string_view(content).substr(separator + 1));
  }
  return sections;
}

void overlay(ToolSettings& settings, const ToolSettings& stronger) {
  if (!stronger.default_index.empty()) settings.default_index = stronger.default_index;
  if (!stronger.extra_indexes.empty()) settings.extra_indexes = stronger.extra_indexes;
  if (!stronger.find_links.empty()) settings.find_links = stronger.find_links;
  if (!stronger.certificates.empty()) settings.certificates = stronger.certificates;
}

void overlay_uv_file(ToolSettings& settings, const fs::path& file) {
  const auto text = base::read_file(file);
  if (!text) return;
  // A broken uv.toml is uv's to complain about; here it says nothing.
  if (const auto read = parse_uv_settings(*text, file.string())) overlay(settings, *read);
}

void overlay_pip_file(ToolSettings& settings, const fs::path& file) {
  if (const auto text = base::read_file(file)) overlay(settings, parse_pip_settings(*text));
}

fs::path user_configuration(const base::Environment& environment) {
  if (const auto xdg = variable(environment, "XDG_CONFIG_HOME"); !xdg.empty()) return xdg;
  const auto home = variable(environment, "HOME");
  return home.empty() ? fs::path() : fs::path(home) / ".config";
}

ToolSettings uv_settings(const base::Environment& environment, const fs::path& root) {
  ToolSettings settings;
  overlay_uv_file(settings, root / "etc/uv/uv.toml");
  if (const auto user = user_configuration(environment); !user.empty()) overlay_uv_file(settings, user / "uv/uv.toml");
  if (const auto file = variable(environment, "UV_CONFIG_FILE"); !file.empty()) overlay_uv_file(settings, file);
  ToolSettings variables;
  variables.default_index = without_name(variable(environment, "UV_DEFAULT_INDEX"));
  if (variables.default_index.empty()) variables.default_index = variable(environment, "UV_INDEX_URL");
  for (const auto& index : words_of(variable(environment, "UV_INDEX")))
    variables.extra_indexes.push_back(without_name(index));
  append(variables.extra_indexes, words_of(variable(environment, "UV_EXTRA_INDEX_URL")));
  variables.find_links = words_of(variable(environment, "UV_FIND_LINKS"), ", \t\r\n");
  overlay(settings, variables);
  return settings;
}

// pip's order: site-wide, user (old place, then new), virtual environment, PIP_CONFIG_FILE, variables.
ToolSettings pip_settings(const base::Environment& environment, const fs::path& root) {
  ToolSettings settings;
  const std::string chosen = variable(environment, "PIP_CONFIG_FILE");
  if (chosen != "/dev/null") {
    overlay_pip_file(settings, root / "etc/xdg/pip/pip.conf");
    overlay_pip_file(settings, root / "etc/pip.conf");
    if (const auto home = variable(environment, "HOME"); !home.empty())
      overlay_pip_file(settings, fs::path(home) / ".pip/pip.conf");
    if (const auto user = user_configuration(environment); !user.empty())
      overlay_pip_file(settings, user / "pip/pip.conf");
    if (const auto venv = variable(environment, "VIRTUAL_ENV"); !venv.empty())
      overlay_pip_file(settings, fs::path(venv) / "pip.conf");
    if (!chosen.empty()) overlay_pip_file(settings, chosen);
  }
  overlay(settings, ToolSettings{.default_index = variable(environment, "PIP_INDEX_URL"),
                                 .extra_indexes = words_of(variable(environment, "PIP_EXTRA_INDEX_URL")),
                                 .find_links = words_of(variable(environment, "PIP_FIND_LINKS")),
                                 .certificates = variable(environment, "PIP_CERT")});
  return settings;
}

}  // namespace

Result<ToolSettings> parse_uv_settings(std::string_view text, const std::string& name) {
  const base::Document document = TRY(base::parse_toml(text, name));
  ToolSettings settings;
  // uv.toml has the keys at its root; `[pip]` repeats some of them for `uv pip`.
  for (const Json* table : {&document.root, &base::member(document.root, "pip")}) {
    const Json& indexes = base::member(*table, "index");
    for (const auto& index : indexes.is_array() ? indexes : Json::array()) {
      const std::string url = base::string_at(index, "url");
      if (url.empty() || base::boolean_at(index, "explicit")) continue;
      if (base::boolean_at(index, "default")) {
        settings.default_index = url;
      } else {
        append(settings.extra_indexes, {url});
      }
    }
    if (const auto url = base::string_at(*table, "index-url"); !url.empty() && settings.default_index.empty())
      settings.default_index = url;
    append(settings.extra_indexes, base::strings_at(*table, "extra-index-url"));
    append(settings.find_links, base::strings_at(*table, "find-links"));
  }
  return settings;
}

ToolSettings parse_pip_settings(std::string_view text) {
  ToolSettings settings;
  auto sections = parse_ini(text);
  for (const char* section : {"global", "install"}) {
    auto& values = sections[section];
    overlay(settings, ToolSettings{.default_index = values["index-url"],
                                   .extra_indexes = words_of(values["extra-index-url"]),
                                   .find_links = words_of(values["find-links"]),
                                   .certificates = values["cert"]});
  }
  return settings;
}

IndexConfiguration index_configuration(const base::Environment& environment, const fs::path& root) {
  const ToolSettings uv = uv_settings(environment, root);
  const ToolSettings pip = pip_settings(environment, root);
  IndexConfiguration configuration;
  configuration.default_index = !uv.default_index.empty()    ? uv.default_index
                                : !pip.default_index.empty() ? pip.default_index
                                                             : std::string(k_default_index);
  const bool uv_has_extras = !uv.extra_indexes.empty() || !uv.default_index.empty();
  configuration.extra_indexes = uv_has_extras ? uv.extra_indexes : pip.extra_indexes;
  configuration.find_links = uv.find_links.empty() ? pip.find_links : uv.find_links;
  configuration.search = uv_has_extras ? IndexSearch::first_index : IndexSearch::best_match;
  configuration.certificates = variable(environment, "SSL_CERT_FILE");
  if (configuration.certificates.empty()) configuration.certificates = pip.certificates;
  return configuration;
}

IndexConfiguration index_configuration() {
  return index_configuration(base::current_environment(), "/");
}

}  // namespace startrail::lock
