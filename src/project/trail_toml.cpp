#include "project/trail_toml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>

#include "base/hash.hpp"
#include "base/process.hpp"
#include "project/pyproject.hpp"
#include "project/requirement_line.hpp"
#include "project/requirements_file.hpp"
#include "project/table_values.hpp"
#include "project/text_scan.hpp"
#include "project/version.hpp"

namespace startrail::project {
namespace {

constexpr std::string_view k_file = "trail.toml";
constexpr std::chrono::seconds k_longest_grace = std::chrono::days(7);

struct TableKeys {
  std::string_view table;
  std::vector<std::string_view> keys;  // empty: read by other parts of the program, which check them
};
const std::vector<TableKeys>& known_tables() {
  static const std::vector<TableKeys> tables{
      {"environment",
       {"image", "python", "packages", "system-packages", "build-with-torch", "build-architectures", "cpu"}},
      {"run", {"command", "gpus", "nodes", "memory", "cpus", "pids", "shm-size", "env"}},
      {"volumes", {"datasets"}},
      {"stop", {"grace", "save"}},
      {"idle", {}},
      {"communication", {}}};
  return tables;
}

std::unexpected<Error> refuse(const TableValue& value, std::string_view key, std::string_view expected) {
  return fail(ErrorCode::invalid_input, fmt::format("{}: {} must be {}", to_text(value.origin()), key, expected));
}

std::unexpected<Error> unknown(const TableValue& value, std::string_view name,
                               const std::vector<std::string_view>& known) {
  Error reason =
      error(ErrorCode::invalid_input, fmt::format("{}: {} has no `{}`", to_text(value.origin()), k_file, name));
  const std::string_view key = name.substr(name.rfind('.') + 1);
  const std::string_view likely = nearest(key, known);
  reason.with_hint(likely.empty() ? fmt::format("known here: {}", fmt::join(known, ", "))
                                  : fmt::format("did you mean `{}`?", likely));
  return fail(std::move(reason));
}

Result<void> check_keys(const TableValue& root) {
  std::vector<std::string_view> tables;
  for (const TableKeys& known : known_tables()) tables.push_back(known.table);
  for (const std::string& name : root.keys()) {
    const auto table = std::ranges::find(known_tables(), name, &TableKeys::table);
    if (table == known_tables().end()) return unknown(root.at(name), name, tables);
    if (!root.at(name).is_table()) return refuse(root.at(name), name, "a table");
    if (table->keys.empty()) continue;
    for (const std::string& key : root.at(name).keys())
      if (std::ranges::find(table->keys, key) == table->keys.end())
        return unknown(root.at({name, key}), fmt::format("{}.{}", name, key), table->keys);
  }
  return {};
}

Result<std::optional<int>> whole_number(const TableValue& value, std::string_view key, int least) {
  if (!value.present()) return std::nullopt;
  if (!value.json().is_number_integer()) return refuse(value, key, "a whole number");
  const auto number = value.json().get<std::int64_t>();
  if (number < least || number > std::numeric_limits<int>::max())
    return refuse(value, key, fmt::format("{} or more", least));
  return static_cast<int>(number);
}

Result<std::optional<Bytes>> size(const TableValue& value, std::string_view key) {
  if (!value.present()) return std::nullopt;
  if (value.json().is_number_integer() && value.json().get<std::int64_t>() > 0)
    return Bytes{static_cast<std::uint64_t>(value.json().get<std::int64_t>())};
  if (auto bytes = base::parse_bytes(value.text()); value.is_text() && bytes) return *bytes;
  return refuse(value, key, "a size such as \"16GiB\"");
}

Result<std::vector<Fact<std::string>>> texts(const TableValue& value, std::string_view key) {
  if (!value.present()) return std::vector<Fact<std::string>>{};
  auto list = value.texts();
  if (!value.is_list() || list.size() != value.size()) return refuse(value, key, "a list of texts");
  return list;
}

Result<std::vector<std::string>> compute_capabilities(const TableValue& value) {
  std::vector<std::string> all;
  for (const auto& [text, origin] : TRY(texts(value, "environment.build-architectures"))) {
    const auto version = Version::parse(text);
    if (!version || version->release().size() != 2 || version->text() != text)
      return fail(error(ErrorCode::invalid_input,
                        fmt::format("{}: `{}` is not a GPU's compute capability", to_text(origin), text))
                      .with_hint("for example: build-architectures = [\"8.0\", \"9.0\"]"));
    all.push_back(text);
  }
  return all;
}

Result<void> read_environment(const Folder& folder, const TableValue& table, TrailFile& result) {
  Declaration& environment = result.environment;
  if (const TableValue image = table.at("image"); image.present()) {
    if (!image.is_text() || image.text().empty())
      return refuse(image, "environment.image", "a text such as \"pytorch:2.6\"");
    result.settings.image = Fact<std::string>{image.text(), image.origin()};
  }
  if (const TableValue python = table.at("python"); python.present()) {
    const auto specifier = python_specifier(python.text());
    if (!python.is_text() || !specifier || specifier->empty())
      return refuse(python, "environment.python", "a version in quotes such as \"3.11\" or \">=3.10\"");
    environment.python = Fact<std::string>{*specifier, python.origin()};
  }
  TRY(texts(table.at("packages"), "environment.packages"));
  RequirementsFileReader reader(folder, environment);
  for (const auto& [line, origin] : table.at("packages").texts())
    TRY(reader.add_line(trimmed(line), origin, "", Role::packages));
  environment.system_packages = TRY(texts(table.at("system-packages"), "environment.system-packages"));
  for (const auto& [name, origin] : environment.system_packages)
    if (name.empty() || !std::ranges::all_of(name, [](char c) { return is_alphanumeric(c) || is_one_of(c, "+-.:"); }) ||
        name.front() == '-')
      return fail(ErrorCode::invalid_input,
                  fmt::format("{}: `{}` is not the name of a Debian package", to_text(origin), name));
  for (const auto& [name, origin] : TRY(texts(table.at("build-with-torch"), "environment.build-with-torch"))) {
    if (name.empty() || !std::ranges::all_of(name, [](char c) { return is_alphanumeric(c) || is_one_of(c, "-_."); }))
      return fail(ErrorCode::invalid_input,
                  fmt::format("{}: `{}` is not the name of a Python package", to_text(origin), name));
    result.settings.build_with_torch.push_back(normalized_name(name));
  }
  result.settings.build_architectures = TRY(compute_capabilities(table.at("build-architectures")));
  if (const TableValue cpu = table.at("cpu"); cpu.present()) {
    if (!cpu.json().is_boolean()) return refuse(cpu, "environment.cpu", "true or false");
    result.settings.build = cpu.json().get<bool>() ? Build::cpu : Build::gpu;
  }
  return {};
}

Result<void> read_run(const TableValue& table, TrailFile& result) {
  Settings& settings = result.settings;
  settings.gpus = TRY(whole_number(table.at("gpus"), "run.gpus", 0));
  settings.nodes = TRY(whole_number(table.at("nodes"), "run.nodes", 1));
  settings.pids = TRY(whole_number(table.at("pids"), "run.pids", 1));
  settings.memory = TRY(size(table.at("memory"), "run.memory"));
  settings.shm_size = TRY(size(table.at("shm-size"), "run.shm-size"));
  if (const TableValue cpus = table.at("cpus"); cpus.present()) {
    if (!cpus.json().is_number() || cpus.json().get<double>() <= 0) return refuse(cpus, "run.cpus", "a number above 0");
    settings.cpus = cpus.json().get<double>();
  }
  const TableValue variables = table.at("env");
  if (variables.present() && !variables.is_table())
    return refuse(variables, "run.env", "a table such as { SEED = \"1\" }");
  for (const std::string& name : variables.keys()) {
    const Json& value = variables.at(name).json();
    if (value.is_structured()) return refuse(variables.at(name), "run.env." + name, "a text");
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (const std::string fault = base::variable_fault(name, text); !fault.empty())
      return fail(ErrorCode::invalid_input,
                  fmt::format("{}: run.env: {}", to_text(variables.at(name).origin()), fault));
    if (name.starts_with("TRAIL_"))
      return fail(
          error(ErrorCode::invalid_input, fmt::format("{}: run.env.{}: TRAIL_ variables are set by the run itself",
                                                      to_text(variables.at(name).origin()), name))
              .with_hint("give it another name"));
    settings.environment[name] = std::move(text);
  }
  const TableValue command = table.at("command");
  if (!command.present()) return {};
  auto words = command.is_text() ? command_words(command.text()) : Result<std::vector<std::string>>{};
  if (!words) {
    words.error().message = fmt::format("{}: run.command: {}", to_text(command.origin()), words.error().message);
    return fail(std::move(words).error());
  }
  if (!command.is_text())
    for (const auto& word : TRY(texts(command, "run.command"))) words->push_back(word.value);
  if (words->empty()) return refuse(command, "run.command", "a command such as \"python train.py\"");
  result.command = Fact<std::vector<std::string>>{std::move(*words), command.origin()};
  return {};
}

Result<void> read_rest(const TableValue& root, TrailFile& result) {
  for (const auto& dataset : TRY(texts(root.at({"volumes", "datasets"}), "volumes.datasets")))
    result.settings.datasets.push_back(dataset.value);
  const TableValue grace = root.at({"stop", "grace"});
  if (!grace.present()) return {};
  if (grace.is_text()) {
    const auto duration = base::parse_duration(grace.text());
    if (!duration || *duration > k_longest_grace)
      return refuse(grace, "stop.grace", "a time up to a week such as \"30s\"");
    result.settings.stop_grace_seconds = static_cast<int>(duration->count());
    return {};
  }
  const auto seconds = TRY(whole_number(grace, "stop.grace", 0));
  if (seconds && std::chrono::seconds(*seconds) > k_longest_grace)
    return refuse(grace, "stop.grace", "a time up to a week such as \"30s\"");
  result.settings.stop_grace_seconds = seconds;
  return {};
}

}  // namespace

Result<std::vector<std::string>> command_words(std::string_view line) {
  char quote = '\0';
  bool needs_shell = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '\\' && quote != '\'') {
      ++i;
    } else if (quote != '\0') {
      needs_shell = needs_shell || (quote == '"' && is_one_of(c, "$`"));
      if (c == quote) quote = '\0';
    } else if (is_one_of(c, "'\"")) {
      quote = c;
    } else if (is_one_of(c, "|&;<>$`\n")) {
      needs_shell = true;
    }
  }
  auto words = TRY(base::shell_split(line));  // also finds an open quote
  if (needs_shell) return std::vector<std::string>{"sh", "-c", std::string(line)};
  return words;
}

Result<std::optional<TrailFile>> read_trail_toml(const Folder& folder) {
  if (!folder.has_file(std::string(k_file))) return std::nullopt;
  const TableFile file = TRY(folder.read_toml(std::string(k_file)));
  const TableValue root(file);
  TRY(check_keys(root));
  TrailFile result;
  result.environment.declared_by = DeclaredBy::trail_toml;
  result.environment.file = k_file;
  const TableValue environment = root.at("environment");
  TRY(read_environment(folder, environment, result));
  TRY(read_run(root.at("run"), result));
  TRY(read_rest(root, result));
  if (environment.present())
    result.environment.sources.push_back(
        {.file = file.file, .sha256 = base::sha256_hex(base::to_compact_text(environment.json()))});
  return result;
}

}  // namespace startrail::project
