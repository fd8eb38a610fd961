#include "instance/record.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/files.hpp"
#include "base/json.hpp"

namespace startrail::instance {
namespace {

Json to_json(const Record& record) {
  return {{"schema", 1},           {"name", record.name},
          {"key", record.key},     {"created", base::to_text(record.created)},
          {"run", record.run_id},  {"user", record.user},
          {"ssh", record.has_ssh}, {"spec", run::to_json(record.spec)}};
}

Result<Record> from_json(const Json& json) {
  return Record{.name = base::string_at(json, "name"),
                .key = base::string_at(json, "key"),
                .created = TRY(base::parse_time(base::string_at(json, "created"))),
                .run_id = base::string_at(json, "run"),
                .user = base::string_at(json, "user"),
                .has_ssh = base::boolean_at(json, "ssh"),
                .spec = TRY(run::run_spec_from_json(base::member(json, "spec")))};
}

Error unknown(const base::StatePaths& paths, const std::string& name) {
  std::string others;
  for (const auto& record : list_records(paths)) others += (others.empty() ? "" : ", ") + record.name;
  Error error = base::error(ErrorCode::not_found, fmt::format("there is no instance {}", name));
  if (!others.empty()) error.with_context("there are: " + others);
  return error.with_hint(fmt::format("make one of the present folder: trail up {}", name));
}

}  // namespace

bool exists(const base::StatePaths& paths, const std::string& name) {
  std::error_code ignored;
  return fs::exists(place_of(paths, name).record_file(), ignored);
}

Result<Record> read_record(const base::StatePaths& paths, const std::string& name) {
  TRY(check_name(name));
  if (!exists(paths, name)) return fail(unknown(paths, name));
  const fs::path file = place_of(paths, name).record_file();
  const Json json = TRY(base::read_json_file(file));
  auto record = TRY_CONTEXT(from_json(json), "while reading " + file.string());
  if (record.name == name && !record.key.empty()) return record;
  return fail(base::error(ErrorCode::corrupt, fmt::format("{} does not describe an instance", file.string()))
                  .with_hint(fmt::format("remove what is left of it: trail rm --force {}", name)));
}

Result<void> write_record(const base::StatePaths& paths, const Record& record, base::Durable durable) {
  return base::write_file_atomic(place_of(paths, record.name).record_file(), base::to_pretty_text(to_json(record)),
                                 0600, durable);
}

std::vector<Record> list_records(const base::StatePaths& paths) {
  std::vector<Record> records;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(paths.instances(), ignored)) {
    const std::string name = entry.path().filename().string();
    if (!check_name(name) || !exists(paths, name)) continue;
    if (auto record = read_record(paths, name)) records.push_back(std::move(*record));
  }
  std::ranges::sort(records, {}, &Record::name);
  return records;
}

}  // namespace startrail::instance
