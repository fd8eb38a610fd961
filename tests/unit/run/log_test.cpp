#include "run/log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <utility>

#include "run/record.hpp"
#include "run/temporary_folder.hpp"

namespace startrail::run {
namespace {

using Stream = LogWriter::Stream;

std::string text_of(const std::vector<LogChunk>& chunks) {
  std::string text;
  for (const auto& chunk : chunks) text += chunk.data;
  return text;
}

std::string rest_of(LogReader& reader) {
  std::string text;
  for (auto chunks = reader.next().value(); !chunks.empty(); chunks = reader.next().value()) text += text_of(chunks);
  return text;
}

void append_raw(const fs::path& file, std::string_view bytes) {
  const auto fd = base::open_file(file, O_WRONLY | O_APPEND).value();
  base::write_all(fd.get(), bytes, file).value();
}

TEST(Log, chunks_come_back_with_their_stream_and_time_as_they_arrive) {
  TemporaryFolder folder;
  auto writer = LogWriter::open(folder.path()).value();
  LogReader reader(folder.path());
  EXPECT_TRUE(reader.next()->empty());
  const auto before = base::now();
  ASSERT_TRUE(writer.append(Stream::output, "hello\n"));
  ASSERT_TRUE(writer.append(Stream::errors, std::string("bin\0ary", 7)));
  const auto chunks = reader.next().value();
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[0].data, "hello\n");
  EXPECT_EQ(chunks[0].stream, Stream::output);
  EXPECT_EQ(chunks[1].data, std::string("bin\0ary", 7));
  EXPECT_EQ(chunks[1].stream, Stream::errors);
  EXPECT_LT(before - chunks[0].time, std::chrono::milliseconds(2));
  EXPECT_LT(chunks[0].time - before, std::chrono::seconds(5));
  EXPECT_TRUE(reader.next()->empty());
  ASSERT_TRUE(writer.append(Stream::output, "more"));
  EXPECT_EQ(text_of(reader.next().value()), "more");
}

TEST(Log, a_run_without_a_log_reads_as_empty) {
  TemporaryFolder folder;
  LogReader reader(folder.path());
  EXPECT_TRUE(reader.seek_to_last_lines(3));
  EXPECT_TRUE(reader.next()->empty());
  EXPECT_TRUE(reader.next_of_ended()->empty());
}

TEST(Log, a_torn_index_record_is_waited_for) {
  TemporaryFolder folder;
  auto writer = LogWriter::open(folder.path()).value();
  ASSERT_TRUE(writer.append(Stream::output, "one\n"));
  ASSERT_TRUE(writer.append(Stream::output, "two\n"));
  const std::string index = base::read_file(folder / k_log_index_file).value();
  for (std::size_t cut = 17; cut < 32; ++cut) {
    write_test_file(folder / k_log_index_file, index.substr(0, cut));
    LogReader reader(folder.path());
    EXPECT_EQ(rest_of(reader), "one\n") << cut;
    append_raw(folder / k_log_index_file, index.substr(cut));
    EXPECT_EQ(rest_of(reader), "two\n") << cut;
  }
}

TEST(Log, a_new_writer_cuts_a_torn_record_off_and_goes_on) {
  TemporaryFolder folder;
  ASSERT_TRUE(LogWriter::open(folder.path())->append(Stream::output, "one\n"));
  append_raw(folder / k_log_index_file, "torn");
  ASSERT_TRUE(LogWriter::open(folder.path())->append(Stream::errors, "two\n"));
  LogReader reader(folder.path());
  const auto chunks = reader.next().value();
  ASSERT_EQ(chunks.size(), 2U);
  EXPECT_EQ(chunks[1].data, "two\n");
  EXPECT_EQ(chunks[1].stream, Stream::errors);
}

TEST(Log, bytes_that_a_killed_writer_did_not_index_are_not_lost) {
  TemporaryFolder folder;
  ASSERT_TRUE(LogWriter::open(folder.path())->append(Stream::output, "one\n"));
  append_raw(folder / k_log_file, "last words");
  LogReader reader(folder.path());
  EXPECT_EQ(rest_of(reader), "one\n");
  EXPECT_EQ(text_of(reader.next_of_ended().value()), "last words");
  EXPECT_TRUE(reader.next_of_ended()->empty());
}

TEST(Log, an_index_that_promises_more_than_there_is_gives_what_there_is) {
  TemporaryFolder folder;
  auto writer = LogWriter::open(folder.path()).value();
  ASSERT_TRUE(writer.append(Stream::output, "0123456789"));
  ASSERT_EQ(::truncate((folder / k_log_file).c_str(), 4), 0);
  LogReader reader(folder.path());
  EXPECT_EQ(rest_of(reader), "0123");
}

TEST(Log, a_large_chunk_comes_in_parts_of_bounded_size) {
  TemporaryFolder folder;
  std::string large(5U << 20U, 'x');
  for (std::size_t i = 0; i < large.size(); i += 4096) large[i] = static_cast<char>('a' + (i / 4096) % 26);
  ASSERT_TRUE(LogWriter::open(folder.path())->append(Stream::output, large));
  LogReader reader(folder.path());
  std::string text;
  for (auto chunks = reader.next().value(); !chunks.empty(); chunks = reader.next().value()) {
    EXPECT_LE(text_of(chunks).size(), 2U << 20U);
    text += text_of(chunks);
  }
  EXPECT_EQ(text, large);
}

TEST(Log, the_last_lines_are_found_whatever_the_chunks) {
  TemporaryFolder folder;
  auto writer = LogWriter::open(folder.path()).value();
  for (int line = 0; line < 30000; ++line) {
    const std::string text = "line " + std::to_string(line) + "\n";
    ASSERT_TRUE(writer.append(line % 2 == 0 ? Stream::output : Stream::errors, text.substr(0, 3)));
    ASSERT_TRUE(writer.append(line % 2 == 0 ? Stream::output : Stream::errors, text.substr(3)));
  }
  for (const auto& [count, expected] : std::vector<std::pair<std::size_t, std::string>>{
           {0, ""}, {1, "line 29999\n"}, {2, "line 29998\nline 29999\n"}}) {
    LogReader reader(folder.path());
    ASSERT_TRUE(reader.seek_to_last_lines(count));
    EXPECT_EQ(rest_of(reader), expected);
  }
  LogReader all(folder.path());
  ASSERT_TRUE(all.seek_to_last_lines(1'000'000));
  EXPECT_TRUE(rest_of(all).starts_with("line 0\nline 1\n"));
}

TEST(Log, a_last_line_without_newline_counts_as_one) {
  TemporaryFolder folder;
  ASSERT_TRUE(LogWriter::open(folder.path())->append(Stream::output, "a\nb\nunfinished"));
  LogReader reader(folder.path());
  ASSERT_TRUE(reader.seek_to_last_lines(2));
  EXPECT_EQ(rest_of(reader), "b\nunfinished");
}

TEST(Log, the_tail_is_the_last_bytes) {
  TemporaryFolder folder;
  ASSERT_TRUE(LogWriter::open(folder.path())->append(Stream::output, "0123456789"));
  EXPECT_EQ(log_tail(folder.path(), 4), "6789");
  EXPECT_EQ(log_tail(folder.path(), 100), "0123456789");
  EXPECT_EQ(log_tail(folder / "nowhere", 100), "");
}

TEST(Log, after_a_full_disk_the_index_tells_the_truth_again) {
  TemporaryFolder folder;
  const pid_t writer_process = ::fork();
  if (writer_process == 0) {
    // The file size limit cuts a write short exactly as a full disk does.
    ::signal(SIGXFSZ, SIG_IGN);
    auto writer = LogWriter::open(folder.path()).value();
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t before = std::exchange(limit.rlim_cur, 1000);
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const bool refused = !writer.append(Stream::output, std::string(1500, 'x'));
    limit.rlim_cur = before;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const bool went_on = writer.append(Stream::errors, "more\n").has_value();
    ::_exit(refused && went_on ? 0 : 1);
  }
  int status = -1;
  ::waitpid(writer_process, &status, 0);
  ASSERT_EQ(status, 0);
  LogReader reader(folder.path());
  EXPECT_EQ(rest_of(reader), std::string(1000, 'x') + "more\n");
}

TEST(Log, a_record_that_a_full_disk_cut_short_does_not_shift_the_later_ones) {
  TemporaryFolder folder;
  const pid_t writer_process = ::fork();
  if (writer_process == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    auto writer = LogWriter::open(folder.path()).value();
    rlimit limit{};
    ::getrlimit(RLIMIT_FSIZE, &limit);
    const rlim_t before = std::exchange(limit.rlim_cur, 40);  // two records and a half
    ::setrlimit(RLIMIT_FSIZE, &limit);
    bool refused = false;
    for (const char* chunk : {"a", "b", "c"}) refused = !writer.append(Stream::output, chunk);
    limit.rlim_cur = before;
    ::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(refused && writer.append(Stream::errors, "d") ? 0 : 1);
  }
  int status = -1;
  ::waitpid(writer_process, &status, 0);
  ASSERT_EQ(status, 0);
  LogReader reader(folder.path());
  const auto chunks = reader.next().value();
  EXPECT_EQ(text_of(chunks), "abcd");
  ASSERT_FALSE(chunks.empty());
  EXPECT_EQ(chunks.back().stream, Stream::errors);
}

TEST(Log, over_its_limit_it_keeps_the_beginning_and_the_end_and_says_so) {
  TemporaryFolder folder;
  auto writer = LogWriter::open(folder.path(), Bytes{100}).value();
  ASSERT_TRUE(writer.append(Stream::output, "begin" + std::string(200, '.')));
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(writer.append(Stream::output, std::string(10'000, '.')));
  ASSERT_TRUE(writer.append(Stream::errors, "the last words\n"));
  ASSERT_TRUE(writer.finish());
  const std::string log = base::read_file(folder / k_log_file).value();
  EXPECT_TRUE(log.starts_with("begin"));
  EXPECT_TRUE(log.ends_with("the last words\n"));
  EXPECT_LT(log.size(), 70'000U);
  EXPECT_NE(log.find("this log has reached 100 B"), std::string::npos);
  EXPECT_NE(log.find(fmt::format("{} bytes of the output are missing here", 205 + 1'000'000 + 15 - 100 - 65536)),
            std::string::npos)
      << log.substr(0, 400);
  LogReader reader(folder.path());
  EXPECT_EQ(rest_of(reader), log);
}

TEST(Log, one_within_its_limit_ends_as_the_command_left_it) {
  TemporaryFolder folder;
  auto writer = LogWriter::open(folder.path(), Bytes{4}).value();
  ASSERT_TRUE(writer.append(Stream::output, "1234"));
  ASSERT_TRUE(writer.finish());
  EXPECT_EQ(log_tail(folder.path(), 100), "1234");
}

}  // namespace
}  // namespace startrail::run
