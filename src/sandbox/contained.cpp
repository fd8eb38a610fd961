// Containers for callers with threads: started by a child process that does nothing else.
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

#include "base/json.hpp"
#include "sandbox/container_request.hpp"
#include "sandbox/sandbox.hpp"

namespace startrail::sandbox {
namespace {

constexpr int k_could_not_start = 125;
constexpr int k_signal_base = 128;

fs::path answer_of(const fs::path& request) {
  return request.string() + ".answer";
}

Json error_json(const Error& error) {
  return {{"code", static_cast<int>(error.code)},
          {"message", error.message},
          {"context", error.context},
          {"hints", error.hints},
          {"detail", error.detail}};
}

Error error_from(const Json& json) {
  return {.code = static_cast<ErrorCode>(base::integer_at(json, "code", static_cast<int>(ErrorCode::internal))),
          .message = base::string_at(json, "message", "the container could not start"),
          .context = base::strings_at(json, "context"),
          .hints = base::strings_at(json, "hints"),
          .detail = base::string_at(json, "detail")};
}

Result<Ended> run_here(const fs::path& file) {
  const Json request = TRY(base::read_json_file(file));
  const auto spec = TRY(container_spec_from_json(base::member(request, "spec")));
  const auto support = support_from_json(base::member(request, "support"));
  auto container = TRY(Container::start(support, spec, {.input = 0, .output = 1, .errors = 2}));
  // Entering a user namespace may have reset it (prctl(2)): the caller's end is this container's end.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  return container.wait();
}

fs::path this_program() {
  if (const auto given = base::environment_variable("STARTRAIL_PROGRAM")) return *given;
  return base::own_program();
}

// Build code may print without end; what it said last tells why it failed.
constexpr Bytes k_kept_output{16U << 20U};

}  // namespace

Result<base::ProcessResult> run_contained(const Support& support, const ContainerSpec& spec,
                                          const std::function<void(std::string_view)>& on_error_line,
                                          std::optional<std::chrono::milliseconds> timeout) {
  TRY(base::make_directories(spec.scratch));
  const fs::path file = spec.scratch / "request.json";
  const Json request = {{"support", to_json(support)}, {"spec", to_json(spec)}};
  TRY(base::write_file_atomic(file, base::to_compact_text(request), 0600));
  ::unlink(answer_of(file).c_str());
  auto result = TRY(base::run_process({.argv = {this_program().string(), "contain", file.string()},
                                       .environment = std::nullopt,
                                       .directory = std::nullopt,
                                       .input = {},
                                       .timeout = timeout,
                                       .output_limit = k_kept_output,
                                       .on_error_line = on_error_line}));
  if (result.timed_out) {
    remove_leftovers(spec.id, spec.scratch);
    return result;
  }
  const auto answer = base::read_json_file(answer_of(file));
  if (!answer)
    return fail(base::error(ErrorCode::internal, "the process that starts the container ended without a word")
                    .with_context(fmt::format("exit code {}, signal {}", result.exit_code, result.signal)));
  if (answer->contains("error")) return fail(error_from(base::member(*answer, "error")));
  result.exit_code = static_cast<int>(base::integer_at(*answer, "exit_code"));
  result.signal = static_cast<int>(base::integer_at(*answer, "signal"));
  if (base::boolean_at(*answer, "out_of_memory")) {
    result.errors += "trail: a process was killed because the container's memory was used up\n";
    if (on_error_line) on_error_line("a process was killed because the container's memory was used up");
  }
  return result;
}

int contain_main(const fs::path& file) {
  const auto ended = run_here(file);
  const Json answer =
      ended ? Json{{"exit_code", ended->exit_code}, {"signal", ended->signal}, {"out_of_memory", ended->out_of_memory}}
            : Json{{"error", error_json(ended.error())}};
  const auto written = base::write_file_atomic(answer_of(file), base::to_compact_text(answer), 0600);
  if (!ended || !written) return k_could_not_start;
  return ended->signal != 0 ? k_signal_base + ended->signal : ended->exit_code;
}

}  // namespace startrail::sandbox
