// Wheels are hostile until proven otherwise: each lie is refused by the file's name, and the store stays as it was.
#include "store_fixture.hpp"

namespace startrail::image::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HostileWheel : public StoreFixture {
 protected:
  static WheelBuilder good() {
    WheelBuilder wheel;
    wheel.add("demo/__init__.py", "answer = 42\n").add("demo/data.bin", std::string(200'000, 'x'));
    return wheel;
  }

  void expect_refused(const WheelBuilder& wheel, ErrorCode code, const std::string& what) {
    expect_refused(source(wheel), code, what);
  }
  void expect_refused(const WheelSource& wheel, ErrorCode code, const std::string& what) {
    (void)store();
    const auto installed = install({wheel});
    ASSERT_FALSE(installed) << "expected to be refused: " << what;
    EXPECT_EQ(name(installed.error().code), name(code)) << installed.error().message;
    EXPECT_THAT(installed.error().message, HasSubstr(wheel.filename));
    EXPECT_THAT(installed.error().message, HasSubstr(what));
    EXPECT_THAT(things(), IsEmpty()) << "the store was changed";
    EXPECT_FALSE(fs::exists(m_folder / "outside")) << "a file was written outside of the store";
  }
  // The good wheel with one more member, which RECORD lists as it should.
  void expect_refused(Member member, ErrorCode code, const std::string& what) {
    WheelBuilder wheel = good();
    wheel.members.push_back(std::move(member));
    expect_refused(wheel, code, what);
  }
};

TEST_F(HostileWheel, an_honest_wheel_is_not_refused) {
  EXPECT_TRUE(install(good()));
}

// ---- names ----

TEST_F(HostileWheel, a_wheel_with_a_path_outside_its_root_is_refused) {
  for (const char* name : {"../outside", "demo/../../outside", "demo/..", "./outside", "demo/./x"})
    expect_refused({.name = name, .content = "x"}, ErrorCode::unsafe_path, name);
}

TEST_F(HostileWheel, a_wheel_with_an_absolute_path_is_refused) {
  expect_refused({.name = "/tmp/outside", .content = "x"}, ErrorCode::unsafe_path, "/tmp/outside");
}

TEST_F(HostileWheel, a_path_outside_its_root_in_a_data_scheme_is_refused) {
  expect_refused({.name = "demo-1.0.data/scripts/../../../../outside", .content = "x"}, ErrorCode::unsafe_path,
                 "outside");
  expect_refused({.name = "demo-1.0.data/data//outside", .content = "x"}, ErrorCode::unsafe_path, "outside");
}

TEST_F(HostileWheel, names_with_backslashes_control_characters_or_nul_are_refused) {
  expect_refused({.name = "demo\\..\\outside", .content = "x"}, ErrorCode::unsafe_path, "backslash");
  expect_refused({.name = "demo/new\nline", .content = "x"}, ErrorCode::unsafe_path, "control character");
  expect_refused({.name = std::string("demo/a\0b", 8), .content = "x"}, ErrorCode::unsafe_path, "control character");
}

TEST_F(HostileWheel, names_that_are_not_utf8_or_do_not_say_so_are_refused) {
  expect_refused({.name = "demo/\xff\xfe", .content = "x"}, ErrorCode::corrupt, "not UTF-8");
  expect_refused({.name = "demo/caf\xc3\xa9", .content = "x"}, ErrorCode::corrupt, "does not say that it is UTF-8");
}

TEST_F(HostileWheel, a_name_that_says_it_is_utf8_is_taken) {
  WheelBuilder wheel = good();
  wheel.members.push_back({.name = "demo/caf\xc3\xa9.txt", .content = "x", .flags = 1U << 11U});
  EXPECT_TRUE(install(wheel));
}

TEST_F(HostileWheel, two_entries_of_one_name_are_refused) {
  WheelBuilder wheel = good();
  wheel.spoil = [](auto& members) { members.push_back({.name = "demo/__init__.py", .content = "answer = 42\n"}); };
  expect_refused(wheel, ErrorCode::corrupt, "'demo/__init__.py' appears twice");
}

TEST_F(HostileWheel, names_that_differ_only_in_case_are_refused) {
  expect_refused({.name = "demo/__INIT__.py", .content = "x"}, ErrorCode::unsafe_path, "differ only in case");
}

TEST_F(HostileWheel, a_file_that_is_also_a_folder_is_refused) {
  expect_refused({.name = "demo/data.bin/inside", .content = "x"}, ErrorCode::corrupt, "a file and a folder");
}

// ---- kinds ----

TEST_F(HostileWheel, symbolic_links_are_refused) {
  expect_refused({.name = "demo/link", .content = "/etc/passwd", .mode = 0120777}, ErrorCode::unsafe_path,
                 "'demo/link' is a symbolic link");
}

TEST_F(HostileWheel, devices_and_pipes_are_refused) {
  for (const std::uint32_t mode : {0020666U, 0060666U, 0010666U, 0140666U})
    expect_refused({.name = "demo/device", .content = "", .mode = mode}, ErrorCode::unsafe_path, "demo/device");
}

TEST_F(HostileWheel, encrypted_entries_and_unknown_methods_are_refused) {
  expect_refused({.name = "demo/secret", .content = "x", .flags = 1}, ErrorCode::corrupt, "'demo/secret' is encrypted");
  expect_refused({.name = "demo/odd", .content = "x", .method = 12}, ErrorCode::corrupt, "method 12");
}

// ---- the zip format's two truths ----

TEST_F(HostileWheel, a_local_header_with_another_name_is_refused) {
  expect_refused({.name = "demo/seen.py", .content = "x", .local_name = "demo/evil.py"}, ErrorCode::corrupt,
                 "demo/seen.py");
}

TEST_F(HostileWheel, a_local_header_with_another_size_is_refused) {
  expect_refused({.name = "demo/seen.py", .content = "x", .local_size = 7}, ErrorCode::corrupt, "different sizes");
}

TEST_F(HostileWheel, a_second_name_in_an_extra_field_is_refused) {
  std::string extra;
  put(extra, 0x7075, 2);
  put(extra, 6, 2);
  extra += std::string("\1abcd", 5) + "x";
  expect_refused({.name = "demo/seen.py", .content = "x", .extra = extra}, ErrorCode::corrupt, "a second name");
}

TEST_F(HostileWheel, data_before_the_archive_is_refused) {
  WheelBuilder wheel = good();
  wheel.lies.before = "#!/bin/sh\n";
  expect_refused(wheel, ErrorCode::corrupt, "data before");
}

TEST_F(HostileWheel, data_behind_the_archive_is_refused) {
  WheelBuilder wheel = good();
  wheel.lies.behind = "more";
  expect_refused(wheel, ErrorCode::corrupt, "data behind");
}

TEST_F(HostileWheel, data_between_directory_and_end_is_refused) {
  WheelBuilder wheel = good();
  wheel.lies.between = "hidden";
  expect_refused(wheel, ErrorCode::corrupt, "between its directory and its end");
}

TEST_F(HostileWheel, an_archive_with_two_ends_is_refused) {
  WheelBuilder other = good();
  const std::string inner = make_zip({});  // a whole, empty archive as the comment
  other.lies.comment = inner;
  expect_refused(other, ErrorCode::corrupt, "two ends");
}

TEST_F(HostileWheel, two_archives_in_one_file_are_refused) {
  const std::string bytes = good().bytes() + good().bytes();
  expect_refused(source("demo-1.0-py3-none-any.whl", bytes), ErrorCode::corrupt, "data before");
}

TEST_F(HostileWheel, hidden_data_between_two_entries_is_refused) {
  expect_refused({.name = "demo/seen.py", .content = "x", .descriptor = "hidden payload"}, ErrorCode::corrupt,
                 "demo/seen.py");
}

TEST_F(HostileWheel, entries_that_overlap_are_refused) {
  WheelBuilder wheel = good();
  wheel.spoil = [](auto& members) { members[1].offset = 0; };  // the second entry says it is the first's bytes
  expect_refused(wheel, ErrorCode::corrupt, "overlaps");
}

TEST_F(HostileWheel, zip64_records_that_contradict_are_refused) {
  WheelBuilder wheel = good();
  wheel.lies.zip64_end = true;
  wheel.lies.zip64_entries = 2;
  expect_refused(wheel, ErrorCode::corrupt, "contradict");
}

TEST_F(HostileWheel, an_honest_zip64_archive_is_taken) {
  WheelBuilder wheel = good();
  wheel.lies.zip64_end = true;
  EXPECT_TRUE(install(wheel));
}

TEST_F(HostileWheel, an_honest_data_descriptor_is_taken_and_a_lying_one_refused) {
  const std::string content = "some content";
  std::string honest;
  put(honest, 0x08074b50, 4);
  put(honest, crc_of(content), 4);
  put(honest, content.size(), 4);
  put(honest, content.size(), 4);
  WheelBuilder wheel = good();
  wheel.members.push_back({.name = "demo/late.txt", .content = content, .flags = 8, .descriptor = honest});
  EXPECT_TRUE(install(wheel));
  ASSERT_TRUE(base::remove_tree(root()));
  wheel.members.back().descriptor[9] = 'x';
  expect_refused(wheel, ErrorCode::corrupt, "data descriptor of 'demo/late.txt'");
}

// ---- sizes ----

TEST_F(HostileWheel, an_entry_that_is_larger_than_announced_is_refused) {
  for (const std::size_t size : {5'000U, 3'000'000U}) {  // unpacked whole, and as a stream
    const std::string content(size, 'y');
    expect_refused({.name = "demo/more.bin",
                    .content = content,
                    .deflated = true,
                    .central_size = size - 10,
                    .local_size = size - 10},
                   ErrorCode::corrupt, "demo/more.bin");
  }
}

TEST_F(HostileWheel, an_entry_that_is_smaller_than_announced_is_refused) {
  for (const std::size_t size : {5'000U, 3'000'000U})
    expect_refused({.name = "demo/less.bin",
                    .content = std::string(size, 'y'),
                    .deflated = true,
                    .central_size = size + 10,
                    .local_size = size + 10},
                   ErrorCode::corrupt, "demo/less.bin");
}

TEST_F(HostileWheel, a_bomb_is_refused_before_it_is_unpacked) {
  // 600 MB announced from a few bytes: more than deflate can do.
  expect_refused({.name = "demo/bomb.bin",
                  .content = "x",
                  .deflated = true,
                  .central_size = 600'000'000,
                  .local_size = 600'000'000},
                 ErrorCode::corrupt, "demo/bomb.bin");
}

TEST_F(HostileWheel, an_archive_that_grows_a_hundredfold_is_refused) {
  expect_refused({.name = "demo/zeros.bin", .content = std::string(300'000'000, '\0'), .deflated = true},
                 ErrorCode::corrupt, "would become");
}

TEST_F(HostileWheel, damaged_compressed_data_is_refused) {
  for (const std::size_t size : {5'000U, 3'000'000U}) {
    Member member{.name = "demo/damaged.bin", .content = std::string(size, 'z'), .deflated = true};
    member.data = "\x07" + deflate(member.content);
    expect_refused(member, ErrorCode::corrupt, "demo/damaged.bin");
  }
}

TEST_F(HostileWheel, bytes_behind_the_compressed_data_are_refused) {
  for (const std::size_t size : {5'000U, 3'000'000U}) {
    Member member{.name = "demo/tail.bin", .content = std::string(size, 'z'), .deflated = true};
    member.data = deflate(member.content) + "tail that no reader sees";
    expect_refused(member, ErrorCode::corrupt, "demo/tail.bin");
  }
}

TEST_F(HostileWheel, a_wrong_checksum_is_refused) {
  expect_refused({.name = "demo/sum.bin", .content = "content", .crc = 1}, ErrorCode::corrupt, "checksum");
}

TEST_F(HostileWheel, a_cut_off_archive_is_refused) {
  const std::string bytes = good().bytes();
  expect_refused(source("demo-1.0-py3-none-any.whl", bytes.substr(0, bytes.size() / 2)), ErrorCode::corrupt,
                 "no zip end record");
}

TEST_F(HostileWheel, what_is_no_archive_at_all_is_refused) {
  expect_refused(source("demo-1.0-py3-none-any.whl", "<html>not found</html>"), ErrorCode::corrupt,
                 "no zip end record");
  expect_refused(source("demo-1.0-py3-none-any.whl", "x"), ErrorCode::corrupt, "too short");
}

// ---- RECORD ----

TEST_F(HostileWheel, a_file_that_differs_from_record_is_refused) {
  WheelBuilder wheel = good();
  wheel.spoil = [](auto& members) { member_named(members, "demo/__init__.py").content = "answer = 43\n"; };
  expect_refused(wheel, ErrorCode::hash_mismatch, "'demo/__init__.py' differs");
}

TEST_F(HostileWheel, a_file_that_record_does_not_list_is_refused) {
  WheelBuilder wheel = good();
  wheel.spoil = [](auto& members) { members.push_back({.name = "demo/stowaway.py", .content = "x"}); };
  expect_refused(wheel, ErrorCode::corrupt, "'demo/stowaway.py' is not in RECORD");
}

TEST_F(HostileWheel, a_file_that_only_record_has_is_refused) {
  WheelBuilder wheel = good();
  wheel.spoil_record = [](std::string& record) { record += "demo/ghost.py,sha256=abc,1\n"; };
  expect_refused(wheel, ErrorCode::corrupt, "RECORD lists 'demo/ghost.py'");
}

TEST_F(HostileWheel, a_file_without_a_hash_is_refused) {
  WheelBuilder wheel = good();
  wheel.spoil_record = [](std::string& record) {
    const auto at = record.find("demo/__init__.py,");
    record.replace(at, record.find('\n', at) - at, "demo/__init__.py,,");
  };
  expect_refused(wheel, ErrorCode::corrupt, "no hash of 'demo/__init__.py'");
}

TEST_F(HostileWheel, a_weak_hash_is_refused) {
  WheelBuilder wheel = good();
  wheel.spoil_record = [](std::string& record) {
    const auto at = record.find("demo/__init__.py,");
    record.replace(at, record.find('\n', at) - at, "demo/__init__.py,md5=abc,12");
  };
  expect_refused(wheel, ErrorCode::corrupt, "hash of kind md5");
}

TEST_F(HostileWheel, a_wheel_without_record_is_refused) {
  WheelBuilder wheel = good();
  wheel.spoil = [](auto& members) { members.pop_back(); };
  expect_refused(wheel, ErrorCode::corrupt, "no RECORD");
}

// ---- what it says of itself ----

TEST_F(HostileWheel, a_wheel_of_another_package_is_refused) {
  WheelSource wheel = source(good());
  wheel.name = "other";
  expect_refused(wheel, ErrorCode::conflict, "the lock calls it 'other'");
}

TEST_F(HostileWheel, a_wheel_of_another_version_is_refused) {
  WheelSource wheel = source(good());
  wheel.version = "2.0";
  expect_refused(wheel, ErrorCode::conflict, "the lock says 2.0");
}

TEST_F(HostileWheel, two_dist_info_folders_are_refused) {
  expect_refused({.name = "other-1.0.dist-info/METADATA", .content = "x"}, ErrorCode::corrupt,
                 "two .dist-info folders");
}

TEST_F(HostileWheel, commands_whose_names_leave_the_bin_folder_are_refused) {
  for (const char* name : {"../outside", "a/b", "..", "a\\b"}) {
    WheelBuilder wheel = good();
    wheel.add("demo-1.0.dist-info/entry_points.txt", fmt::format("[console_scripts]\n{} = demo:main\n", name));
    expect_refused(wheel, ErrorCode::unsafe_path, name);
  }
}

TEST_F(HostileWheel, a_command_that_hides_code_in_its_reference_is_refused) {
  WheelBuilder wheel = good();
  wheel.add("demo-1.0.dist-info/entry_points.txt", "[console_scripts]\nrun = demo:main;import os\n");
  expect_refused(wheel, ErrorCode::corrupt, "not module:object");
}

TEST_F(HostileWheel, files_that_would_replace_the_interpreter_are_refused) {
  WheelBuilder command = good();
  command.add("demo-1.0.dist-info/entry_points.txt", "[console_scripts]\npython = demo:main\n");
  expect_refused(command, ErrorCode::unsafe_path, "bin/python");
  for (const char* name :
       {"demo-1.0.data/scripts/python3", "demo-1.0.data/data/bin/python3.11", "demo-1.0.data/data/pyvenv.cfg"})
    expect_refused({.name = name, .content = "x"}, ErrorCode::unsafe_path, "the environment itself");
}

TEST_F(HostileWheel, two_files_for_one_place_are_refused) {
  expect_refused({.name = "demo-1.0.data/purelib/demo/__init__.py", .content = "x"}, ErrorCode::corrupt,
                 "would become");
}

}  // namespace
}  // namespace startrail::image::testing
