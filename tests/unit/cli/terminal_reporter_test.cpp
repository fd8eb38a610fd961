#include "cli/terminal_reporter.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <thread>
#include <vector>

#include "base/files.hpp"
#include "cli/table.hpp"
#include "cli/text_width.hpp"

namespace startrail::cli {
namespace {

// A pipe large enough for what these tests print.
struct Screen {
  Screen() {
    std::array<int, 2> ends{};
    if (::pipe(ends.data()) == 0) read_end = base::Fd(ends[0]), write_end = base::Fd(ends[1]);
    ::fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  }
  [[nodiscard]] std::string text() const {
    std::string all(1U << 16U, '\0');
    const auto count = ::read(read_end.get(), all.data(), all.size());
    all.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return all;
  }
  base::Fd read_end, write_end;
};

base::Progress bytes(std::uint64_t done, std::uint64_t total) {
  return {.what = "downloading", .done = done, .total = total, .detail = "torch"};
}

TEST(ProgressText, tells_amount_share_rate_and_time_left) {
  EXPECT_EQ(progress_text(bytes(1'000'000'000, 3'000'000'000), 100e6),
            "downloading  1 GB of 3 GB  33%  100 MB/s  20 s left  torch");
}

TEST(ProgressText, says_only_what_is_known) {
  EXPECT_EQ(progress_text({.what = "installing", .done = 3, .total = 12, .unit = base::Unit::items}, 0),
            "installing  3 of 12  25%");
  EXPECT_EQ(progress_text({.what = "reading"}, 0), "reading");
  EXPECT_EQ(progress_text({.what = "reading", .done = 5, .total = 0}, 0), "reading  5 B of 0 B  0%");
}

TEST(TerminalReporter, without_a_terminal_prints_a_line_per_phase_and_no_control_characters) {
  const Screen screen;
  {
    TerminalReporter reporter({.descriptor = screen.write_end.get()}, Verbosity::normal);
    reporter.step("resolving 12 requirements");
    for (std::uint64_t i = 0; i <= 1000; ++i) reporter.progress(bytes(i, 1000));
    reporter.note("a note");
  }
  EXPECT_EQ(screen.text(), "resolving 12 requirements\na note\n");
}

TEST(TerminalReporter, quiet_prints_warnings_only) {
  const Screen screen;
  TerminalReporter reporter({.descriptor = screen.write_end.get()}, Verbosity::quiet);
  reporter.step("x");
  reporter.note("y");
  reporter.warn("z");
  EXPECT_EQ(screen.text(), "warning: z\n");
}

TEST(TerminalReporter, on_a_terminal_the_line_is_cut_to_the_width_and_taken_away) {
  const Screen screen;
  TerminalReporter reporter({.descriptor = screen.write_end.get(), .live = true, .width = 20}, Verbosity::normal);
  reporter.step("downloading many things that need a long line");
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  const std::string drawn = screen.text();
  EXPECT_EQ(drawn.substr(0, 4), "\r\x1b[K");
  EXPECT_EQ(columns_of(drawn.substr(4, drawn.find('\r', 1) - 4)), 20U);
  EXPECT_EQ(drawn.find('\n'), std::string::npos);
  reporter.finish();
  EXPECT_EQ(screen.text(), "\r\x1b[K");
}

TEST(TerminalReporter, redraws_at_most_ten_times_a_second_whatever_many_threads_report) {
  const Screen screen;
  TerminalReporter reporter({.descriptor = screen.write_end.get(), .live = true, .width = 40}, Verbosity::normal);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (std::uint64_t done = 0; done < 20'000; ++done) reporter.progress(bytes(done, 20'000));
    });
  for (auto& thread : threads) thread.join();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  reporter.finish();
  const std::string drawn = screen.text();
  EXPECT_LT(std::ranges::count(drawn, '\r'), 100);
}

TEST(TextWidth, counts_wide_characters_twice_and_cuts_between_characters) {
  EXPECT_EQ(columns_of("学習"), 4U);
  EXPECT_EQ(columns_of("zug ü"), 5U);
  EXPECT_EQ(cut_to_columns("学習中", 5), "学習…");
  EXPECT_EQ(cut_to_columns("abc", 3), "abc");
  EXPECT_EQ(cut_to_columns("abcd", 3), "ab…");
  EXPECT_EQ(cut_to_columns("a\tb\n", 10), "a b ");
  EXPECT_EQ(columns_of("\xff\xfe"), 2U);
}

TEST(Table, aligns_columns_and_leaves_no_spaces_at_line_ends) {
  Table table({"A", "B"});
  table.add({"学", "x"});
  table.add({"long", ""});
  EXPECT_EQ(table.text(0), "A     B\n学    x\nlong\n");
}

}  // namespace
}  // namespace startrail::cli
