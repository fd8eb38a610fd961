#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include "base/clock.hpp"
#include "base/document.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/http.hpp"
#include "base/process.hpp"
#include "base/state_paths.hpp"
#include "base/units.hpp"

namespace startrail::base {
namespace {

using namespace std::chrono_literals;

struct TemporaryFolder {
  fs::path path = *make_temporary_directory(fs::temp_directory_path(), "trail-base-test");
  ~TemporaryFolder() { (void)remove_tree(path); }
};

TEST(Errors, text_has_the_sentence_then_why_then_what_to_do) {
  const Error reason =
      error(ErrorCode::refused, "torch needs driver 580").with_context("read from a:3").with_hint("upgrade");
  EXPECT_EQ(to_text(reason), "error: torch needs driver 580\n  read from a:3\nhint: upgrade");
  EXPECT_EQ(exit_code(ErrorCode::refused), 1);
  EXPECT_EQ(exit_code(ErrorCode::usage), 2);
  EXPECT_EQ(exit_code(ErrorCode::internal), 70);
}

TEST(Errors, errno_is_mapped_to_what_the_user_can_do_about_it) {
  EXPECT_EQ(errno_error("x", ENOSPC).code, ErrorCode::no_space);
  EXPECT_EQ(errno_error("x", ENOENT).code, ErrorCode::not_found);
  EXPECT_EQ(errno_error("x", EACCES).code, ErrorCode::permission);
}

TEST(Units, sizes_are_read_as_docker_reads_them) {
  EXPECT_EQ(parse_bytes("16GiB")->count, 16ULL << 30U);
  EXPECT_EQ(parse_bytes("512m")->count, 512ULL << 20U);
  EXPECT_EQ(parse_bytes("2GB")->count, 2'000'000'000ULL);
  EXPECT_EQ(parse_bytes("1.5 KiB")->count, 1536U);
  EXPECT_EQ(parse_bytes("7")->count, 7U);
  for (const char* wrong : {"", "lots", "-1", "1XB", "GiB", "nan", "1e300"}) EXPECT_FALSE(parse_bytes(wrong)) << wrong;
}

TEST(Units, sizes_are_written_as_people_read_them) {
  EXPECT_EQ(to_text(Bytes{2'900'000'000}), "2.9 GB");
  EXPECT_EQ(to_binary_text(Bytes{512ULL << 20U}), "512 MiB");
  EXPECT_EQ(to_text(std::chrono::nanoseconds(12'400ms)), "12.4 s");
  EXPECT_EQ(*parse_duration("5m"), 300s);
  EXPECT_FALSE(parse_duration("soon"));
}

TEST(Clock, times_survive_a_round_trip) {
  const auto time = std::chrono::system_clock::time_point(1'790'000'000'123ms);
  EXPECT_EQ(*parse_time(to_text(time)), time);
  EXPECT_FALSE(parse_time("yesterday"));
}

TEST(Hash, known_vectors) {
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 hash;
  hash.update("a");
  hash.update("bc");
  EXPECT_EQ(to_base64url(hash.finish()), "ungWv48Bz-pBQUDeXa4iI7ADYaOWF3qctBD_YfIAFa0");
}

TEST(Files, an_atomic_write_replaces_and_leaves_no_sibling) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomic(folder.path / "f", "one"));
  ASSERT_TRUE(write_file_atomic(folder.path / "f", "two", 0600, Durable::yes));
  EXPECT_EQ(*read_file(folder.path / "f"), "two");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path), fs::directory_iterator()), 1);
}

TEST(Files, a_file_over_the_limit_is_refused_not_read) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomic(folder.path / "f", std::string(2000, 'x')));
  EXPECT_EQ(read_file(folder.path / "f", Bytes{1000}).error().code, ErrorCode::invalid_input);
  EXPECT_EQ(read_file(folder.path).error().code, ErrorCode::invalid_input);
  EXPECT_EQ(read_file(folder.path / "none").error().code, ErrorCode::not_found);
}

TEST(Files, a_read_only_tree_is_removed_and_what_links_lead_to_is_not) {
  const TemporaryFolder folder;
  const fs::path tree = folder.path / "tree";
  ASSERT_TRUE(make_directories(tree / "a/b"));
  ASSERT_TRUE(write_file_atomic(folder.path / "kept", "x"));
  ASSERT_TRUE(write_file_atomic(tree / "a/b/f", "x", 0444));
  fs::create_symlink(folder.path / "kept", tree / "a/link");
  ::chmod((tree / "a/b").c_str(), 0555);
  ::chmod((tree / "a").c_str(), 0555);
  ASSERT_TRUE(remove_tree(tree));
  EXPECT_FALSE(fs::exists(tree));
  EXPECT_TRUE(fs::exists(folder.path / "kept"));
  EXPECT_TRUE(remove_tree(tree)) << "a missing tree is fine";
}

TEST(Files, a_lock_is_held_by_one) {
  const TemporaryFolder folder;
  auto first = FileLock::acquire(folder.path / "lock");
  ASSERT_TRUE(first);
  EXPECT_FALSE(FileLock::try_acquire(folder.path / "lock")->has_value());
  {
    const FileLock released = std::move(*first);
  }
  EXPECT_TRUE(FileLock::try_acquire(folder.path / "lock")->has_value());
}

TEST(Process, output_errors_and_exit_code_are_collected) {
  std::vector<std::string> lines;
  const auto result = run_process({.argv = {"sh", "-c", "cat; echo one >&2; echo two >&2; exit 3"},
                                   .input = "given",
                                   .on_error_line = [&](std::string_view line) { lines.emplace_back(line); }});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "given");
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two"}));
}

TEST(Process, a_signal_is_told_from_an_exit_code) {
  const auto result = run_process({.argv = {"sh", "-c", "kill -9 $$"}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->signal, SIGKILL);
  EXPECT_FALSE(result->succeeded());
}

TEST(Process, a_missing_program_is_an_error_that_names_it) {
  const auto result = run_process({.argv = {"no-such-program-here"}});
  ASSERT_FALSE(result);
  EXPECT_NE(result.error().message.find("no-such-program-here"), std::string::npos);
}

TEST(Process, a_timeout_ends_the_whole_group) {
  const auto began = std::chrono::steady_clock::now();
  const auto result = run_process({.argv = {"sh", "-c", "sleep 30 & sleep 30"}, .timeout = 200ms});
  ASSERT_TRUE(result);
  EXPECT_TRUE(result->timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 5s);
}

TEST(Process, the_environment_is_exactly_the_one_given) {
  const auto result = run_process({.argv = {"env"}, .environment = Environment{{"ONLY", "this"}}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output, "ONLY=this\n");
}

TEST(Process, an_identity_does_not_match_another_boot_or_another_start) {
  auto identity = *process_identity(::getpid());
  EXPECT_TRUE(is_alive(identity));
  auto other = identity;
  other.start_ticks += 1;
  EXPECT_FALSE(is_alive(other));
  other = identity;
  other.boot_id = "another";
  EXPECT_FALSE(is_alive(other));
}

TEST(Process, an_identity_of_another_machine_or_pid_namespace_says_nothing_here) {
  const auto identity = *process_identity(::getpid());
  EXPECT_TRUE(is_of_here(identity));
  auto other_host = identity, other_machine = identity, other_namespace = identity, written_before = identity;
  other_host.place.host += "-2";
  other_machine.place.machine += "0";
  other_namespace.place.pid_namespace += 1;
  written_before.place = {};
  for (const auto& other : {other_host, other_machine, other_namespace}) {
    EXPECT_FALSE(is_of_here(other));
    EXPECT_FALSE(is_alive(other));
  }
  EXPECT_TRUE(is_alive(written_before));
}

TEST(Process, of_an_output_over_its_limit_the_end_is_kept) {
  std::size_t longest = 0;
  const auto result = run_process(
      {.argv = {"sh", "-c", "head -c 3000000 /dev/zero; printf end; head -c 3000000 /dev/zero >&2; printf last >&2"},
       .output_limit = Bytes{1000},
       .on_error_line = [&](std::string_view line) { longest = std::max(longest, line.size()); }});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->output.size(), 1000U);
  EXPECT_TRUE(result->output.ends_with("end"));
  EXPECT_EQ(result->errors.size(), 1000U);
  EXPECT_TRUE(result->errors.ends_with("last"));
  EXPECT_GT(longest, 0U) << "a line that never ends is handed over in parts";
  EXPECT_LT(longest, 1'000'000U);
}

TEST(Process, a_caller_without_standard_streams_gets_the_right_ones_back) {
  const pid_t caller = ::fork();
  if (caller == 0) {
    for (const int fd : {0, 1, 2}) ::close(fd);
    const auto result = run_process({.argv = {"sh", "-c", "cat; echo error >&2"}, .input = "given"});
    ::_exit(result && result->output == "given" && result->errors == "error\n" ? 0 : 1);
  }
  int status = -1;
  ::waitpid(caller, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Process, signals_meanwhile_do_not_hide_that_a_program_could_not_be_run) {
  const TemporaryFolder folder;
  ASSERT_TRUE(write_file_atomic(folder.path / "broken", "#!/no/such/interpreter\n", 0755));
  const pid_t caller = ::fork();
  if (caller == 0) {
    struct sigaction action{};
    action.sa_handler = [](int) {};
    ::sigaction(SIGALRM, &action, nullptr);
    const itimerval often{{0, 1000}, {0, 1000}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
    for (int round = 0; round < 20; ++round)
      if (run_process({.argv = {(folder.path / "broken").string()}})) ::_exit(1);
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(caller, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(Process, a_variable_that_no_program_can_be_given_is_told) {
  EXPECT_EQ(variable_fault("SEED", "1 = \n"), "");
  for (const char* name : {"", "A=B", "A B", "A\nB"}) EXPECT_NE(variable_fault(name, "1"), "") << name;
  EXPECT_NE(variable_fault(std::string_view("A\0B", 3), "1"), "");
  EXPECT_NE(variable_fault("A", std::string_view("1\0"
                                                 "2",
                                                 3)),
            "");
}

TEST(Shell, words_survive_quoting_and_splitting) {
  const std::vector<std::string> words{"python", "a b.py", "it's", "", "--x=1", "$HOME"};
  EXPECT_EQ(*shell_split(shell_join(words)), words);
  EXPECT_EQ(*shell_split("a \"b c\" d\\ e"), (std::vector<std::string>{"a", "b c", "d e"}));
  EXPECT_FALSE(shell_split("a 'b"));
}

TEST(Documents, toml_values_know_their_lines) {
  const auto document =
      parse_toml("[project]\nname = \"x\"\ndependencies = [\n  \"torch\",\n  \"numpy\",\n]\n", "pyproject.toml");
  ASSERT_TRUE(document);
  EXPECT_EQ(document->line_of("/project/dependencies/1"), 5);
  const auto broken = parse_toml("a = \n", "x.toml");
  ASSERT_FALSE(broken);
  EXPECT_NE(broken.error().message.find("x.toml:1"), std::string::npos);
}

TEST(Documents, yaml_versions_stay_text) {
  const auto document =
      parse_yaml("dependencies:\n  - python=3.10\n  - pip:\n    - torch==1.10\nversion: 3.10\n", "environment.yml");
  ASSERT_TRUE(document);
  EXPECT_EQ(string_at(document->root, "version"), "3.10");
  EXPECT_EQ(document->line_of("/dependencies/1/pip/0"), 4);
}

TEST(Documents, a_yaml_bomb_is_refused) {
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int k = 0; k < 10; ++k) bomb += (k == 0 ? "*a" : ",*a") + std::to_string(i - 1);
    bomb += "]\n";
  }
  EXPECT_FALSE(parse_yaml(bomb, "bomb.yml"));
}

TEST(Documents, a_key_that_begins_badly_is_an_error_not_an_abort) {
  for (const char* text : {"a = { \x01 = 1 }", "a = {\n}", "a = { , }", "[ ]", "[[]]", "a.=1", "= 1"})
    EXPECT_FALSE(parse_toml(text, "x.toml").has_value()) << text;
}

TEST(Documents, toml_quoting_survives_reading) {
  const std::string text = "a \"b\" \\ \n\t\x01 ü";
  const auto document = parse_toml("x = " + toml_quote(text), "t");
  ASSERT_TRUE(document);
  EXPECT_EQ(string_at(document->root, "x"), text);
}

TEST(Http, credentials_and_queries_are_never_shown) {
  EXPECT_EQ(without_credentials("https://user:secret@host.example/simple/x?token=1"), "https://host.example/simple/x");
  EXPECT_EQ(host_of("https://user:secret@host.example:8080/simple"), "host.example:8080");
}

TEST(Http, an_unreachable_server_is_named) {
  const auto response = http_get({.url = "http://127.0.0.1:1/x"});
  ASSERT_FALSE(response);
  EXPECT_EQ(response.error().code, ErrorCode::network);
  EXPECT_NE(response.error().message.find("127.0.0.1:1"), std::string::npos);
}

TEST(StatePaths, the_environment_decides) {
  EXPECT_EQ(state_paths({{"STARTRAIL_HOME", "/data/trail"}})->root, "/data/trail");
  EXPECT_FALSE(state_paths({{"STARTRAIL_HOME", "relative"}}));
  if (::geteuid() == 0) {
    EXPECT_EQ(state_paths({{"HOME", "/root"}})->root, "/var/lib/startrail");
  }
}

}  // namespace
}  // namespace startrail::base
