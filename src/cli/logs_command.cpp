#include <fmt/format.h>

#include <charconv>
#include <csignal>

#include "app/follow_run.hpp"
#include "app/list_runs.hpp"
#include "cli/commands.hpp"
#include "cli/followed_run.hpp"
#include "cli/output.hpp"
#include "cli/terminal_reporter.hpp"

namespace startrail::cli {
namespace {

constexpr Manual k_manual{.name = "logs",
                          .arguments = "[OPTIONS] [RUN]",
                          .summary = "Show what a run printed: its stdout on stdout, its stderr on stderr.",
                          .examples =
                              "  trail logs                  Of the latest run\n"
                              "  trail logs -f --tail 20     Its last lines, and what still comes\n"
                              "  trail logs quiet-falcon     Of this one (any unique beginning will do)\n"};

struct Options {
  bool follow = false, timestamps = false;
  std::optional<std::string> tail, run;
};

// Puts the time before each line; a line that comes in parts gets it once.
class Stamper {
 public:
  std::string stamp(const run::LogChunk& chunk) {
    std::string result;
    bool& begins = m_line_begins[chunk.stream == run::LogWriter::Stream::output ? 0 : 1];
    for (std::size_t start = 0; start < chunk.data.size();) {
      const std::size_t end = std::min(chunk.data.find('\n', start), chunk.data.size() - 1) + 1;
      if (begins) result += base::to_text(chunk.time) + " ";
      result.append(chunk.data, start, end - start);
      begins = chunk.data[end - 1] == '\n';
      start = end;
    }
    return result;
  }

 private:
  bool m_line_begins[2] = {true, true};
};

Result<std::optional<std::size_t>> tail_of(const std::optional<std::string>& text) {
  if (!text || *text == "all") return std::optional<std::size_t>();
  std::size_t count = 0;
  const auto [end, failed] = std::from_chars(text->data(), text->data() + text->size(), count);
  if (failed != std::errc{} || end != text->data() + text->size())
    return fail(base::error(ErrorCode::usage, fmt::format("--tail `{}` is not a number of lines", *text))
                    .with_hint("for example: --tail 100"));
  return std::optional(count);
}

Result<void> show_what_is_there(const run::RunStore& store, const std::string& id, std::optional<std::size_t> tail,
                                const std::function<bool(const run::LogChunk&)>& show, bool has_ended) {
  run::LogReader reader(store.directory(id));
  if (tail) TRY(reader.seek_to_last_lines(*tail));
  for (;;) {
    const auto chunks = TRY(has_ended ? reader.next_of_ended() : reader.next());
    if (chunks.empty()) return {};
    for (const auto& chunk : chunks)
      if (!show(chunk)) return {};
  }
}

Result<int> show_log(const Options& options, const app::Installation& installation, Reporter& reporter) {
  const auto tail = TRY(tail_of(options.tail));
  auto store = TRY(app::open_runs(installation, reporter));
  const std::string id = TRY(app::find_run(installation, store, options.run.value_or("latest")));
  Stamper stamper;
  const auto show = [&](const run::LogChunk& chunk) {
    if (!options.timestamps) return print_chunk(chunk, Format::text);
    return print_chunk({.stream = chunk.stream, .time = chunk.time, .data = stamper.stamp(chunk)}, Format::text);
  };
  if (!options.follow) {
    const bool has_ended = run::is_final(TRY(store.status(id)).state);
    TRY(show_what_is_there(store, id, tail, show, has_ended));
    return 0;
  }
  const auto followed = TRY(app::follow_run(installation, store, id, {.tail = tail, .on_chunk = show}));
  if (!followed.reader_gone && followed.status.state != run::State::succeeded)
    say(ending_in_words(id, followed.status));
  return 0;
}

}  // namespace

int logs_command(Words words) {
  Options options;
  CommandLine line(k_manual);
  line.flag("-f,--follow", options.follow, "Go on until the run ends");
  line.value("-n,--tail", options.tail, "N", "Only the last N lines");
  line.flag("-t,--timestamps", options.timestamps, "Put the time before each line");
  line.argument("run", options.run);
  if (const auto leave = parse_or_leave(line, words)) return *leave;

  const auto installation = app::find_installation();
  if (!installation) return report(installation.error(), Format::text);
  TerminalReporter reporter(traits_of_stderr(), Verbosity::normal);
  const auto code = show_log(options, *installation, reporter);
  return code ? *code : report(code.error(), Format::text);
}

}  // namespace startrail::cli
