// Wheels over HTTP from servers that cut, stall, lie and refuse.
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <future>
#include <random>

#include "store_fixture.hpp"
#include "test_server.hpp"

namespace startrail::image::testing {
namespace {

using ::testing::HasSubstr;

class Download : public StoreFixture {
 protected:
  // About 10 MB that do not compress.
  static WheelBuilder big(const std::string& name = "demo", std::size_t size = 10'000'000) {
    std::mt19937_64 random(7);
    std::string noise(size, '\0');
    for (char& letter : noise) letter = static_cast<char>(random());
    WheelBuilder wheel{.name = name};
    wheel.add(name + "/noise.bin", noise).add(name + "/__init__.py", "x = 1\n");
    return wheel;
  }

  WheelSource serve(TestServer& server, const WheelBuilder& wheel) {
    const std::string bytes = wheel.bytes();
    server.put("/" + wheel.filename(), bytes);
    return {.name = wheel.name,
            .version = wheel.version,
            .filename = wheel.filename(),
            .sha256 = base::sha256_hex(bytes),
            .size = bytes.size(),
            .address = server.url("/" + wheel.filename()),
            .look_up = {}};
  }

  static PipelineOptions quick() {
    PipelineOptions options{.workers = 2};
    options.transfers.first_delay = std::chrono::milliseconds(5);
    options.transfers.stall = std::chrono::seconds(1);
    return options;
  }

  void expect_installed(const WheelSource& wheel, const Result<void>& outcome) {
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_TRUE(store().has_wheel(wheel.sha256));
    EXPECT_FALSE(fs::exists(store().part(wheel.sha256)));
    EXPECT_FALSE(fs::exists(store().part(wheel.sha256).string() + ".journal"));
  }
};

TEST_F(Download, a_wheel_comes_in_ranges_and_each_byte_once) {
  TestServer server;
  const WheelSource wheel = serve(server, big());
  expect_installed(wheel, install({wheel}, quick()));
  EXPECT_EQ(server.bytes_sent(), wheel.size);
  EXPECT_GT(server.requests().size(), 2U);
}

TEST_F(Download, the_end_of_a_wheel_is_asked_for_first) {
  TestServer server;
  const WheelSource wheel = serve(server, big());
  expect_installed(wheel, install({wheel}, quick()));
  EXPECT_EQ(server.requests().front().end, wheel.size);
  EXPECT_GT(server.requests().front().begin, 0U);
}

TEST_F(Download, connections_that_are_cut_are_taken_up_where_they_broke) {
  TestServer server([](const ServedRequest& request) {
    return Behaviour{.send_at_most = request.number % 3 == 0 ? 700'000 : UINT64_MAX};
  });
  const WheelSource wheel = serve(server, big());
  expect_installed(wheel, install({wheel}, quick()));
  EXPECT_EQ(server.bytes_sent(), wheel.size);
}

TEST_F(Download, a_server_without_ranges_works) {
  TestServer server([](const ServedRequest&) { return Behaviour{.ignore_range = true}; });
  const WheelSource wheel = serve(server, big());
  expect_installed(wheel, install({wheel}, quick()));
  EXPECT_EQ(server.bytes_sent(), wheel.size);
  EXPECT_EQ(server.requests().size(), 1U);
}

TEST_F(Download, a_server_without_ranges_that_is_cut_is_read_again) {
  TestServer server([](const ServedRequest& request) {
    return Behaviour{.send_at_most = request.number < 3 ? 3'000'000 : UINT64_MAX, .ignore_range = true};
  });
  const WheelSource wheel = serve(server, big());
  expect_installed(wheel, install({wheel}, quick()));
}

TEST_F(Download, a_server_that_tells_no_length_works_when_the_lock_does) {
  TestServer server([](const ServedRequest&) { return Behaviour{.ignore_range = true, .no_length = true}; });
  const WheelSource wheel = serve(server, big());
  expect_installed(wheel, install({wheel}, quick()));
}

TEST_F(Download, a_lock_without_sizes_works) {
  TestServer server;
  WheelSource wheel = serve(server, big());
  const std::uint64_t size = std::exchange(wheel.size, 0);
  expect_installed(wheel, install({wheel}, quick()));
  EXPECT_EQ(server.bytes_sent(), size);
}

TEST_F(Download, busy_servers_are_asked_again) {
  TestServer server([](const ServedRequest& request) {
    return Behaviour{.status = request.number == 1 ? 503 : request.number == 2 ? 429 : 0};
  });
  const WheelSource wheel = serve(server, big());
  expect_installed(wheel, install({wheel}, quick()));
}

TEST_F(Download, a_server_that_stays_broken_is_named) {
  TestServer server([](const ServedRequest&) { return Behaviour{.status = 500}; });
  const WheelSource wheel = serve(server, big());
  const auto outcome = install({wheel}, quick());
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::network);
  EXPECT_THAT(outcome.error().message, HasSubstr("HTTP status 500"));
  EXPECT_THAT(outcome.error().message, HasSubstr(wheel.filename));
}

TEST_F(Download, a_stalled_stream_is_replaced) {
  TestServer server([](const ServedRequest& request) {
    return request.number == 2 ? Behaviour{.send_at_most = 500'000, .stall = true} : Behaviour();
  });
  const WheelSource wheel = serve(server, big());
  expect_installed(wheel, install({wheel}, quick()));
  EXPECT_EQ(server.bytes_sent(), wheel.size);
}

TEST_F(Download, a_wheel_that_is_gone_is_looked_up_in_the_index) {
  TestServer server;
  WheelSource wheel = serve(server, big());
  const std::string right = std::exchange(wheel.address, server.url("/moved-away.whl"));
  wheel.look_up = [right]() -> Result<std::string> { return right; };
  expect_installed(wheel, install({wheel}, quick()));
}

TEST_F(Download, a_wheel_without_an_address_is_looked_up_in_the_index) {
  TestServer server;
  WheelSource wheel = serve(server, big());
  wheel.look_up = [right = std::exchange(wheel.address, "")]() -> Result<std::string> { return right; };
  expect_installed(wheel, install({wheel}, quick()));
}

TEST_F(Download, a_wheel_that_is_nowhere_is_named) {
  TestServer server;
  WheelSource wheel = serve(server, big());
  wheel.address = server.url("/moved-away.whl");
  const auto outcome = install({wheel}, quick());
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::not_found);
  EXPECT_THAT(outcome.error().message, HasSubstr(wheel.filename));
}

TEST_F(Download, damaged_bytes_are_fetched_once_more) {
  TestServer server([](const ServedRequest& request) { return Behaviour{.flip = request.number == 2}; });
  const WheelSource wheel = serve(server, big());
  expect_installed(wheel, install({wheel}, quick()));
  EXPECT_EQ(server.bytes_sent(), 2 * wheel.size);
}

TEST_F(Download, bytes_that_stay_wrong_are_a_hash_mismatch) {
  TestServer server([](const ServedRequest&) { return Behaviour{.flip = true}; });
  const WheelSource wheel = serve(server, big());
  const auto outcome = install({wheel}, quick());
  ASSERT_FALSE(outcome);
  EXPECT_EQ(outcome.error().code, ErrorCode::hash_mismatch);
  EXPECT_THAT(outcome.error().message, HasSubstr(wheel.filename));
  EXPECT_FALSE(store().has_wheel(wheel.sha256));
  EXPECT_THAT(things(), ::testing::IsEmpty());
}

TEST_F(Download, a_server_with_another_file_is_told_at_once) {
  TestServer server;
  WheelSource wheel = serve(server, big());
  wheel.size -= 1000;
  const auto outcome = install({wheel}, quick());
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("were promised"));
}

TEST_F(Download, a_killed_build_keeps_what_had_arrived) {
  if (!k_may_fork) GTEST_SKIP() << "ThreadSanitizer cannot follow a forked child that starts threads";
  TestServer server([](const ServedRequest&) { return Behaviour{.pause = std::chrono::milliseconds(4)}; });
  const WheelSource wheel = serve(server, big("demo", 20'000'000));
  (void)store();
  std::uint64_t sent_to_the_dead = 0;
  for (int round = 0; round < 3; ++round) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(install({wheel}, quick()) ? 0 : 1);
    std::this_thread::sleep_for(std::chrono::milliseconds(250));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  sent_to_the_dead = server.bytes_sent();
  ASSERT_GT(sent_to_the_dead, 3'000'000U);
  const auto part = base::ArrivingFile::open(store().part(wheel.sha256), wheel.size);
  ASSERT_TRUE(part);
  const std::uint64_t kept = (*part)->resumed();
  // What was on its way to the killed process: a socket's and a stream's buffer for each of its streams.
  EXPECT_GT(kept + std::uint64_t{3} * 4 * 3'000'000, sent_to_the_dead);
  EXPECT_GT(kept, 1'000'000U);
  expect_installed(wheel, install({wheel}, quick()));
  EXPECT_EQ(server.bytes_sent() - sent_to_the_dead, wheel.size - kept);
}

TEST_F(Download, a_journal_that_lies_is_found_by_the_hash) {
  TestServer server;
  const WheelSource wheel = serve(server, big());
  (void)store();
  {
    const auto part = base::ArrivingFile::open(store().part(wheel.sha256), wheel.size);
    ASSERT_TRUE(part);
    ASSERT_TRUE((*part)->write(0, std::string(2'000'000, 'x')));  // as after a power cut
  }
  expect_installed(wheel, install({wheel}, quick()));
}

TEST_F(Download, a_damaged_journal_is_started_anew) {
  TestServer server;
  const WheelSource wheel = serve(server, big());
  (void)store();
  ASSERT_TRUE(base::write_file_atomic(store().part(wheel.sha256), "something"));
  ASSERT_TRUE(base::write_file_atomic(store().part(wheel.sha256).string() + ".journal", "nonsense"));
  expect_installed(wheel, install({wheel}, quick()));
}

TEST_F(Download, two_builders_at_once_share_the_work) {
  TestServer server([](const ServedRequest&) { return Behaviour{.pause = std::chrono::milliseconds(1)}; });
  const std::vector<WheelSource> wheels{serve(server, big("one", 4'000'000)), serve(server, big("two", 4'000'000))};
  (void)store();
  auto other = std::async(std::launch::async, [&] { return install(wheels, quick()); });
  const auto mine = install(wheels, quick());
  const auto theirs = other.get();
  ASSERT_TRUE(mine) << mine.error().message;
  ASSERT_TRUE(theirs) << theirs.error().message;
  EXPECT_EQ(server.bytes_sent(), wheels[0].size + wheels[1].size);
}

TEST_F(Download, a_builder_takes_over_from_one_that_died) {
  if (!k_may_fork) GTEST_SKIP() << "ThreadSanitizer cannot follow a forked child that starts threads";
  TestServer server([](const ServedRequest&) { return Behaviour{.pause = std::chrono::milliseconds(4)}; });
  const WheelSource wheel = serve(server, big());
  (void)store();
  const pid_t child = ::fork();
  if (child == 0) ::_exit(install({wheel}, quick()) ? 0 : 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  auto waiting = std::async(std::launch::async, [&] { return install({wheel}, quick()); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  expect_installed(wheel, waiting.get());
}

TEST_F(Download, trees_are_given_out_once_each_whether_new_or_there_already) {
  TestServer server;
  const std::vector<WheelSource> wheels{serve(server, big("one", 100'000)), serve(server, big("two", 100'000)),
                                        serve(server, big("three", 100'000))};
  ASSERT_TRUE(install({wheels[1]}, quick()));
  std::mutex mutex;
  std::vector<std::string> names;
  PipelineOptions options = quick();
  options.on_tree = [&](const WheelSource& source, const WheelTree& tree, const fs::path& folder) -> Result<void> {
    const std::scoped_lock lock(mutex);
    EXPECT_EQ(tree.sha256, source.sha256);
    EXPECT_TRUE(fs::exists(folder / "meta.json"));
    names.push_back(source.name);
    return {};
  };
  ASSERT_TRUE(install({wheels[0], wheels[1], wheels[2], wheels[0]}, options));
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("one", "two", "three"));
}

TEST_F(Download, one_bad_wheel_leaves_the_others_in_the_store) {
  TestServer server;
  const WheelSource good = serve(server, big("good", 50'000));
  WheelBuilder lying = big("lying", 8'000'000);
  lying.spoil = [](auto& members) { members.push_back({.name = "stowaway.py", .content = "x"}); };
  const WheelSource bad = serve(server, lying);
  ASSERT_TRUE(install({good}, quick()));
  const auto outcome = install({good, bad}, quick());
  ASSERT_FALSE(outcome);
  EXPECT_THAT(outcome.error().message, HasSubstr("stowaway.py"));
  EXPECT_TRUE(store().has_wheel(good.sha256));
  EXPECT_FALSE(store().has_wheel(bad.sha256));
  EXPECT_TRUE(fs::is_empty(root() / "staging"));
}

TEST_F(Download, a_full_disk_is_told_and_leaves_a_usable_store) {
  if (::geteuid() != 0) GTEST_SKIP() << "mounting a small disk needs root";
  ASSERT_TRUE(base::make_directories(root()));
  if (::mount("tmpfs", root().c_str(), "tmpfs", 0, "size=14m") != 0) GTEST_SKIP() << "this container may not mount";
  TestServer server;
  const WheelSource wheel = serve(server, big());  // 10 MB arriving and 10 MB unpacked do not fit
  const auto outcome = install({wheel}, quick());
  EXPECT_FALSE(outcome);
  if (!outcome) {
    EXPECT_EQ(outcome.error().code, ErrorCode::no_space) << outcome.error().message;
  }
  EXPECT_FALSE(store().has_wheel(wheel.sha256));
  EXPECT_EQ(::mount("tmpfs", root().c_str(), "tmpfs", MS_REMOUNT, "size=64m"), 0);
  expect_installed(wheel, install({wheel}, quick()));
  EXPECT_EQ(::umount2(root().c_str(), MNT_DETACH), 0);
}

TEST(FileAddress, escapes_what_an_address_cannot_hold) {
  EXPECT_EQ(base::file_address("/a b/c%d/e.whl"), "file:///a%20b/c%25d/e.whl");
}

TEST(ArrivingFile, tells_what_is_there_without_a_gap) {
  const fs::path folder = *base::make_temporary_directory(fs::temp_directory_path(), "startrail-part");
  constexpr std::uint64_t chunk = base::ArrivingFile::k_chunk;
  {
    const auto file = *base::ArrivingFile::open(folder / "x.part", 3 * chunk + 10);
    EXPECT_EQ(file->available(0, 100), 0U);
    ASSERT_TRUE(file->write(chunk, std::string(chunk, 'b')));
    ASSERT_TRUE(file->write(0, std::string(1000, 'a')));
    EXPECT_EQ(file->available(0, 5000), 1000U);
    EXPECT_EQ(file->available(999, 5000), 1U);
    EXPECT_EQ(file->available(chunk, 2 * chunk), chunk);
    ASSERT_TRUE(file->write(1000, std::string(chunk - 1000, 'a')));
    EXPECT_EQ(file->available(0, 10 * chunk), 2 * chunk);
    EXPECT_FALSE(file->complete());
  }
  const auto again = *base::ArrivingFile::open(folder / "x.part", 3 * chunk + 10);
  EXPECT_EQ(again->resumed(), 2 * chunk);
  ASSERT_TRUE(again->write(2 * chunk, std::string(chunk + 10, 'c')));
  EXPECT_TRUE(again->complete());
  EXPECT_EQ((*base::ArrivingFile::open(folder / "x.part", 5))->resumed(), 0U);
  EXPECT_TRUE(base::remove_tree(folder));
}

}  // namespace
}  // namespace startrail::image::testing
