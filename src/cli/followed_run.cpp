#include "cli/followed_run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>

#include "app/background.hpp"
#include "app/list_runs.hpp"
#include "app/outputs.hpp"
#include "base/files.hpp"

namespace startrail::cli {
namespace {

std::string took(const run::Status& status) {
  if (!status.started || !status.ended) return "";
  return base::to_text(std::chrono::nanoseconds(*status.ended - *status.started));
}

void say_success(const app::Installation& installation, const std::string& id, const run::Status& status) {
  std::string text = fmt::format("run {} succeeded in {}", id, took(status));
  if (const auto outputs = app::written(app::output_folder(installation, id)))
    text += fmt::format("; its outputs: {}", outputs->string());
  say(styled(text, Style::dim, wants_colour(STDERR_FILENO)));
}

void say_end(const app::Installation& installation, const std::string& id, const run::Status& status,
             Verbosity verbosity) {
  for (const auto& remark : status.remarks) say_warning(remark);
  if (status.state != run::State::succeeded) return say(ending_in_words(id, status));
  if (verbosity == Verbosity::normal) say_success(installation, id, status);
}

void say_phase(std::chrono::nanoseconds took, std::string_view name) {
  say(fmt::format("{:>10.1f} ms  {}", std::chrono::duration<double, std::milli>(took).count(), name));
}

// What the supervisor did meanwhile, by the times in the record.
void say_supervisors_part(const run::Status& status) {
  if (!status.started || !status.running || !status.ended) return;
  say_phase(*status.running - *status.started, "  of which starting the container");
  say_phase(*status.ended - *status.running, "  of which the command, and its end");
}

void say_timings(const app::Phases& phases, const run::Status& status) {
  for (const auto& phase : phases.all()) say_phase(phase.took, phase.name);
  say_supervisors_part(status);
  say_phase(phases.total(), "in all");
}

int detached(const app::Installation& installation, const app::SubmittedRun& submitted, const app::Phases& phases,
             const FollowStyle& style) {
  if (const auto warning = app::ends_with_logout(installation)) say_warning(*warning);
  if (style.timings) say_timings(phases, {});
  if (style.format == Format::json) {
    auto store = app::open_runs(installation, *std::make_unique<base::SilentReporter>());
    const auto status = store ? store->status(submitted.id) : Result<run::Status>(run::Status{});
    print_json(ending_json(installation, submitted.spec, status ? *status : run::Status{}));
  } else {
    print(fmt::format("{}\n", submitted.id));
  }
  return 0;
}

// "killed: memory limit 512 MiB reached" → what follows the state, which is said already.
std::string without_state(const std::string& cause, std::string_view state) {
  const std::string prefix = fmt::format("{}: ", state);
  return cause.starts_with(prefix) ? cause.substr(prefix.size()) : cause;
}

// The best of what the log shows, and the first thing to do about it. What is no more than a guess is left to
// `trail doctor`.
std::string text_of_findings(const Json& findings, std::string_view hint) {
  constexpr double k_worth_saying = 0.7;
  if (!findings.is_array() || findings.empty()) return "";
  const Json& best = findings.front();
  if (base::number_at(best, "confidence") < k_worth_saying) return "";
  std::string text = fmt::format("\n  {} ({})", base::string_at(best, "summary"), base::string_at(best, "certainty"));
  if (const auto fixes = base::strings_at(best, "fix"); !fixes.empty())
    text += fmt::format("\n{} {}", hint, fixes.front());
  return text;
}

}  // namespace

bool print_chunk(const run::LogChunk& chunk, Format format) {
  const bool to_output = chunk.stream == run::LogWriter::Stream::output && format == Format::text;
  return base::write_all(to_output ? STDOUT_FILENO : STDERR_FILENO, chunk.data, "the output").has_value();
}

std::string ending_in_words(const std::string& id, const run::Status& status) {
  const bool colour = wants_colour(STDERR_FILENO);
  const bool is_stop = status.state == run::State::stopped;
  const std::string cause = status.cause.empty() ? "" : ": " + without_state(status.cause, run::name(status.state));
  std::string text =
      fmt::format("{} {}{}", styled(fmt::format("run {}", id), is_stop ? Style::bold : Style::red, colour),
                  run::name(status.state), cause);
  const std::string hint = styled("hint:", Style::cyan, colour);
  if (status.error) {
    text = styled_error(*status.error, colour) + fmt::format("\n  run {} did not start", id);
    return text;
  }
  text += text_of_findings(status.findings, hint);
  if (!is_stop) text += fmt::format("\n{} trail logs {}    trail inspect {}    trail doctor {}", hint, id, id, id);
  return text;
}

Json ending_json(const app::Installation& installation, const run::RunSpec& spec, const run::Status& status) {
  const auto or_absent = [](const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); };
  const auto time = [](const std::optional<base::Time>& at) { return at ? Json(base::to_text(*at)) : Json(nullptr); };
  const auto path = [](const std::optional<fs::path>& at) { return at ? Json(at->string()) : Json(nullptr); };
  Json seconds = nullptr;
  if (status.started && status.ended) seconds = std::chrono::duration<double>(*status.ended - *status.started).count();
  return Json{{"id", spec.id},
              {"state", run::name(status.state)},
              {"exit_code", base::or_null(status.exit_code)},
              {"signal", base::or_null(status.signal)},
              {"cause", or_absent(status.cause)},
              {"error", status.error ? error_json(*status.error)["error"] : Json(nullptr)},
              {"findings", status.findings},
              {"image", or_absent(spec.image_id)},
              {"lock_digest", or_absent(spec.lock_digest)},
              {"snapshot", or_absent(spec.snapshot)},
              {"isolation", spec.isolation},
              {"outputs", path(app::output_folder(installation, spec.id))},
              {"checkpoints", path(app::checkpoint_folder(installation, spec.id))},
              {"rerun_of", or_absent(spec.rerun_of)},
              {"started", time(status.started)},
              {"ended", time(status.ended)},
              {"seconds", seconds}};
}

int show_submitted(const app::Installation& installation, const app::SubmittedRun& submitted, app::Phases& phases,
                   const FollowStyle& style) {
  if (submitted.image)
    app::compile_bytecode_in_background(installation, *submitted.image, app::Begin::after_first_steps);
  if (style.detach) return detached(installation, submitted, phases, style);
  ::signal(SIGPIPE, SIG_IGN);  // a closed stdout ends the following, not the run: said below
  base::SilentReporter silent;
  auto store = app::open_runs(installation, silent);
  if (!store) return report(store.error(), style.format);
  const app::FollowOptions options{
      .on_chunk = [&](const run::LogChunk& chunk) { return print_chunk(chunk, style.format); },
      .on_message = [](std::string_view text) { say(text); }};
  const auto followed = app::follow_run(installation, *store, submitted.id, options);
  if (!followed) return report(followed.error(), style.format);
  phases.end("the run");
  if (followed->reader_gone) {
    say(fmt::format("nobody reads the output any more; run {} goes on\nhint: trail logs -f {}    trail stop {}",
                    submitted.id, submitted.id, submitted.id));
    return 128 + SIGPIPE;
  }
  say_end(installation, submitted.id, followed->status, style.verbosity);
  if (style.timings) say_timings(phases, followed->status);
  if (style.format == Format::json) print_json(ending_json(installation, submitted.spec, followed->status));
  return app::exit_status(followed->status);
}

}  // namespace startrail::cli
