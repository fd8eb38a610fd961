#include "cli/terminal_reporter.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/files.hpp"
#include "base/units.hpp"
#include "cli/output.hpp"
#include "cli/text_width.hpp"

namespace startrail::cli {
namespace {

constexpr auto k_redraw_every = std::chrono::milliseconds(100);
constexpr auto k_rate_window = std::chrono::seconds(3);
constexpr auto k_plain_every = std::chrono::seconds(10);
constexpr std::uint64_t k_plain_percent = 10;
// Shorter phases aren't worth a line of their own once they are over.
constexpr auto k_worth_keeping = std::chrono::milliseconds(500);

constexpr std::uint64_t k_many_items = 50;

std::string amount(const base::Progress& progress, std::uint64_t count) {
  return progress.unit == base::Unit::bytes ? base::to_text(Bytes{count}) : fmt::format("{}", count);
}

std::string whole_seconds(double seconds) {
  const auto whole = std::llround(seconds);
  return whole < 60 ? fmt::format("{} s", whole) : base::to_text(std::chrono::seconds(whole));
}

std::uint64_t percent_of(const base::Progress& progress) {
  if (!progress.total || *progress.total == 0) return 0;
  return std::min<std::uint64_t>(100, progress.done * 100 / *progress.total);
}

}  // namespace

std::string progress_text(const base::Progress& progress, double rate) {
  std::string text = progress.what;
  if (progress.total)
    text += fmt::format("  {} of {}  {}%", amount(progress, progress.done), amount(progress, *progress.total),
                        percent_of(progress));
  else if (progress.done > 0)
    text += fmt::format("  {}", amount(progress, progress.done));
  if (rate > 0 && progress.unit == base::Unit::bytes)
    text += fmt::format("  {}/s", amount(progress, static_cast<std::uint64_t>(rate)));
  // A few large items say little about the time that the rest will take.
  const bool is_steady = progress.unit == base::Unit::bytes || progress.total.value_or(0) >= k_many_items;
  if (is_steady && rate > 0 && progress.total && *progress.total > progress.done) {
    const double seconds = static_cast<double>(*progress.total - progress.done) / rate;
    if (seconds >= 1 && seconds < 1e6) text += fmt::format("  {} left", whole_seconds(seconds));
  }
  if (!progress.detail.empty()) text += "  " + progress.detail;
  return text;
}

TerminalTraits traits_of_stderr() {
  const char* terminal = std::getenv("TERM");
  const bool dumb = terminal == nullptr || std::string_view(terminal) == "dumb";
  return {
      .descriptor = STDERR_FILENO, .live = is_terminal(STDERR_FILENO) && !dumb, .colour = wants_colour(STDERR_FILENO)};
}

TerminalReporter::TerminalReporter(TerminalTraits traits, Verbosity verbosity)
    : m_traits(traits), m_verbosity(verbosity) {}

TerminalReporter::~TerminalReporter() {
  finish();
}

void TerminalReporter::step(std::string_view what) {
  if (m_verbosity == Verbosity::quiet) return;
  const std::scoped_lock lock(m_mutex);
  begin_phase(what);
}

void TerminalReporter::progress(const base::Progress& progress) {
  if (m_verbosity == Verbosity::quiet) return;
  const std::scoped_lock lock(m_mutex);
  if (m_phase.empty()) begin_phase(progress.what);
  const auto now = Clock::now();
  if (!m_progress || m_progress->what != progress.what || progress.done < m_rate_base) {
    m_rate_began = now;
    m_rate_base = progress.done;
    m_rate = 0;
    m_last_percent = 0;
  }
  m_progress = progress;
  const double seconds = std::chrono::duration<double>(now - m_rate_began).count();
  if (seconds > 0.5) m_rate = static_cast<double>(progress.done - m_rate_base) / seconds;
  if (now - m_rate_began > k_rate_window) {
    m_rate_began = now;
    m_rate_base = progress.done;
  }
  if (!m_traits.live) plain_progress(progress);
}

void TerminalReporter::note(std::string_view text) {
  if (m_verbosity == Verbosity::quiet) return;
  const std::scoped_lock lock(m_mutex);
  clear_line();
  write_line(text);
}

void TerminalReporter::warn(std::string_view text) {
  const std::scoped_lock lock(m_mutex);
  clear_line();
  write_line(fmt::format("{} {}", styled("warning:", Style::yellow, m_traits.colour), text));
}

void TerminalReporter::finish() {
  {
    const std::scoped_lock lock(m_mutex);
    end_phase();
    m_stopping = true;
  }
  m_stop.notify_all();
  if (m_redrawer.joinable()) m_redrawer.join();
  m_stopping = false;
}

void TerminalReporter::begin_phase(std::string_view what) {
  end_phase();
  m_phase = what;
  m_phase_began = m_rate_began = m_last_plain = Clock::now();
  m_rate_base = 0;
  m_rate = 0;
  m_last_percent = 0;
  if (m_traits.live)
    start_redrawing();
  else
    write_line(what);
}

void TerminalReporter::end_phase() {
  clear_line();
  if (!m_phase.empty() && m_traits.live) {
    const auto took = Clock::now() - m_phase_began;
    if (took >= k_worth_keeping)
      write_line(styled(fmt::format("{} ({})", m_phase, base::to_text(took)), Style::dim, m_traits.colour));
  }
  m_phase.clear();
  m_progress.reset();
}

void TerminalReporter::start_redrawing() {
  if (m_redrawer.joinable()) return;
  m_redrawer = std::thread([this] {
    std::unique_lock lock(m_mutex);
    while (!m_stop.wait_for(lock, k_redraw_every, [this] { return m_stopping; })) redraw();
  });
}

void TerminalReporter::redraw() {
  if (m_phase.empty()) return;
  (void)base::write_all(m_traits.descriptor, "\r\x1b[K" + cut_to_columns(live_line(), width()), "the terminal");
  m_line_is_drawn = true;
}

void TerminalReporter::clear_line() {
  if (!m_line_is_drawn) return;
  (void)base::write_all(m_traits.descriptor, "\r\x1b[K", "the terminal");
  m_line_is_drawn = false;
}

std::string TerminalReporter::live_line() {
  if (m_progress) return progress_text(*m_progress, m_rate);
  const auto took = Clock::now() - m_phase_began;
  if (took < std::chrono::seconds(1)) return m_phase;
  return fmt::format("{}  {}", m_phase, whole_seconds(std::floor(std::chrono::duration<double>(took).count())));
}

void TerminalReporter::plain_progress(const base::Progress& progress) {
  const auto now = Clock::now();
  const std::uint64_t percent = percent_of(progress);
  const bool is_later = now - m_last_plain >= k_plain_every;
  const bool is_further = percent >= m_last_percent + k_plain_percent && now - m_last_plain >= std::chrono::seconds(1);
  if (!is_later && !is_further) return;
  m_last_plain = now;
  m_last_percent = percent;
  write_line(progress_text(progress, m_rate));
}

void TerminalReporter::write_line(std::string_view text) {
  (void)base::write_all(m_traits.descriptor, fmt::format("{}\n", text), "the terminal");
}

std::size_t TerminalReporter::width() const {
  if (m_traits.width != 0) return m_traits.width;
  winsize size{};
  if (::ioctl(m_traits.descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col - 1U;
  return 79;
}

}  // namespace startrail::cli
