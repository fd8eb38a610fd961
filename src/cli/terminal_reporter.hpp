// Progress for people: one live line on a terminal, plain lines elsewhere.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "base/reporter.hpp"

namespace startrail::cli {

enum class Verbosity { normal, quiet };

struct TerminalTraits {
  int descriptor = 2;
  bool live = false;  // a terminal that can redraw its last line
  bool colour = false;
  // 0: ask the terminal at each redraw.
  std::size_t width = 0;
};
[[nodiscard]] TerminalTraits traits_of_stderr();

// On a terminal: the last line is redrawn at most ten times a second, cut to the width, and goes away with its phase.
// Elsewhere: a line per phase, and one more every ten seconds or ten percent. Quiet: warnings only.
class TerminalReporter final : public base::Reporter {
 public:
  TerminalReporter(TerminalTraits traits, Verbosity verbosity);
  ~TerminalReporter() override;
  TerminalReporter(const TerminalReporter&) = delete;
  TerminalReporter& operator=(const TerminalReporter&) = delete;

  void step(std::string_view what) override;
  void progress(const base::Progress& progress) override;
  void note(std::string_view text) override;
  void warn(std::string_view text) override;

  // Takes the live line away and stops redrawing: the terminal belongs to the command's output from here on.
  void finish();

 private:
  using Clock = std::chrono::steady_clock;

  void begin_phase(std::string_view what);  // with the lock held, like all below
  void end_phase();
  void start_redrawing();
  void redraw();
  void clear_line();
  void plain_progress(const base::Progress& progress);
  void write_line(std::string_view text);
  [[nodiscard]] std::string live_line();
  [[nodiscard]] std::size_t width() const;

  const TerminalTraits m_traits;
  const Verbosity m_verbosity;
  std::mutex m_mutex;
  std::condition_variable m_stop;
  bool m_stopping = false;
  std::thread m_redrawer;  // started with the first phase on a terminal, never before
  bool m_line_is_drawn = false;

  std::string m_phase;
  Clock::time_point m_phase_began;
  std::optional<base::Progress> m_progress;
  // Where the rate is measured from; moved on every few seconds, so that it follows the present.
  Clock::time_point m_rate_began;
  std::uint64_t m_rate_base = 0;
  double m_rate = 0;  // units per second
  Clock::time_point m_last_plain;
  std::uint64_t m_last_percent = 0;
};

// "downloading  1.2 GB of 2.9 GB  41%  112 MB/s  15 s left  torch and 3 more"; `rate` in units per second.
[[nodiscard]] std::string progress_text(const base::Progress& progress, double rate);

}  // namespace startrail::cli
