#include "machine/runtimes.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <array>

#include "base/files.hpp"
#include "base/json.hpp"
#include "base/process.hpp"
#include "machine/text_fields.hpp"
#include "machine/versions.hpp"

namespace startrail::machine {
namespace {

constexpr std::array<const char*, 2> k_names{"runc", "crun"};
// crun before 1.9 stops with "cgroups in hybrid mode not supported".
constexpr std::string_view k_first_crun_with_hybrid = "1.9";

std::string identity(const fs::path& program) {
  struct stat status{};
  if (::stat(program.c_str(), &status) != 0) return {};
  return fmt::format("{}:{}.{:09}", status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

std::string ask_version(const fs::path& program) {
  const auto result = base::run_process({.argv = {program.string(), "--version"},
                                         .environment = {},
                                         .directory = {},
                                         .input = {},
                                         .timeout = std::chrono::seconds(5),
                                         .on_error_line = {}});
  return result && result->succeeded() ? runtime_version(result->output) : "";
}

}  // namespace

std::string runtime_version(std::string_view output_of_version_flag) {
  const auto first = words(output_of_version_flag.substr(0, output_of_version_flag.find('\n')));
  return first.size() >= 3 && first[1] == "version" ? std::string(first[2]) : "";
}

void judge(Runtime& runtime, CgroupMode mode) {
  runtime.usable = true;
  if (runtime.version.empty()) {
    runtime.usable = false;
    runtime.why_not = fmt::format("`{} --version` did not answer", runtime.program.string());
  } else if (runtime.name == "crun" && mode == CgroupMode::hybrid && older(runtime.version, k_first_crun_with_hybrid)) {
    runtime.usable = false;
    runtime.why_not = fmt::format("crun {} refuses hybrid cgroups, {} and newer accept them", runtime.version,
                                  k_first_crun_with_hybrid);
  }
}

std::vector<Runtime> survey_runtimes(const fs::path& state_root, CgroupMode mode, Depth depth) {
  const fs::path cache_file = state_root / "cache" / "runtimes.json";
  Json cache = base::read_json_file(cache_file).value_or(Json::object());
  if (!cache.is_object()) cache = Json::object();
  bool changed = false;
  std::vector<Runtime> runtimes;
  for (const char* name : k_names) {
    const auto program = base::find_program(name);
    if (!program) continue;
    Runtime runtime{.name = name, .program = *program, .version = {}, .usable = false, .why_not = {}};
    const std::string known_as = identity(*program);
    const Json& known = base::member(cache, program->string());
    if (depth == Depth::quick && base::string_at(known, "identity") == known_as)
      runtime.version = base::string_at(known, "version");
    if (runtime.version.empty()) {
      runtime.version = ask_version(*program);
      cache[program->string()] = {{"identity", known_as}, {"version", runtime.version}};
      changed = true;
    }
    judge(runtime, mode);
    runtimes.push_back(std::move(runtime));
  }
  // A cache that can't be written costs the next call a few milliseconds, nothing else.
  if (changed && base::make_directories(cache_file.parent_path()))
    static_cast<void>(base::write_file_atomic(cache_file, base::to_pretty_text(cache)));
  return runtimes;
}

}  // namespace startrail::machine
