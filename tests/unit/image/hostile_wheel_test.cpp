// Wheels are hostile until proven otherwise: each lie is refused by the file's name, and the store stays as it was.
#include "store_fixture.hpp"

namespace startrail::image::testing {
namespace {

using ::testing::HasSubstr;

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
  // The store holds another wheel already; after the refusal it is what it was, file for file.
  void expect_refused(const WheelSource& wheel, ErrorCode code, const std::string& what) {
    if (!fs::exists(root())) {
      WheelBuilder other{.name = "other"};
      ASSERT_TRUE(install(other.add("other/__init__.py", "x = 1\n")));
    }
    const auto before = snapshot();
    const auto installed = install({wheel});
    ASSERT_FALSE(installed) << "expected to be refused: " << what;
    EXPECT_EQ(name(installed.error().code), name(code)) << installed.error().message;
    EXPECT_THAT(installed.error().message, HasSubstr(wheel.filename));
    EXPECT_THAT(installed.error().message, HasSubstr(what));
    EXPECT_EQ(snapshot(), before) << "the store was changed";
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

// pip's CVE-2026-1703: a folder whose name begins like the root's is not the root.
TEST_F(HostileWheel, a_path_into_a_neighbour_with_a_longer_name_is_refused) {
  for (const char* name : {"../site-evil/outside.py", "demo-1.0.data/data/../data-evil/outside.py", "../site"})
    expect_refused({.name = name, .content = "x"}, ErrorCode::unsafe_path, name);
}

// wheel's GHSA-8rrh-rw8j-w5fx: the mode of an entry was set at its name as written, outside of the root.
TEST_F(HostileWheel, a_mode_for_a_file_outside_its_root_is_not_set) {
  const fs::path victim = m_folder / "victim";
  ASSERT_TRUE(base::write_file_atomic(victim, "secret", 0600));
  for (const std::string& name : {std::string("../../../victim"), victim.string()})
    expect_refused({.name = name, .content = "secret", .mode = 0100777}, ErrorCode::unsafe_path, "victim");
  struct stat status{};
  ASSERT_EQ(::stat(victim.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0600U);
}

TEST_F(HostileWheel, setuid_and_setgid_bits_are_not_taken_over) {
  WheelBuilder wheel = good();
  wheel.members.push_back({.name = "demo/tool", .content = "x", .mode = 0106755});
  const WheelSource made = source(wheel);
  ASSERT_TRUE(install({made}));
  struct stat status{};
  ASSERT_EQ(::stat((tree(made) / "site/demo/tool").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777U, 0555U);
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

TEST_F(HostileWheel, names_that_differ_only_in_case_beyond_ascii_are_refused) {
  WheelBuilder wheel = good();
  wheel.members.push_back({.name = "demo/\xc3\xa9t\xc3\xa9.txt", .content = "x", .flags = 1U << 11U});
  wheel.members.push_back({.name = "demo/\xc3\x89T\xc3\x89.txt", .content = "y", .flags = 1U << 11U});
  expect_refused(wheel, ErrorCode::unsafe_path, "differ only in case");
}

TEST_F(HostileWheel, a_folder_and_a_file_whose_names_differ_in_case_are_refused) {
  expect_refused({.name = "Demo/data.bin/inside", .content = "x"}, ErrorCode::corrupt, "a file and a folder");
}

TEST_F(HostileWheel, empty_and_overlong_names_are_refused) {
  expect_refused({.name = "", .content = "x"}, ErrorCode::unsafe_path, "an empty name");
  expect_refused({.name = "demo/" + std::string(256, 'n'), .content = "x"}, ErrorCode::unsafe_path, "too long");
  std::string deep;
  for (int level = 0; level < 1600; ++level) deep += "d/";
  expect_refused({.name = deep + "x", .content = "x"}, ErrorCode::unsafe_path, "too long for a path");
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

TEST_F(HostileWheel, what_is_a_folder_by_its_attributes_and_a_file_by_its_name_is_refused) {
  expect_refused({.name = "demo/odd", .content = "", .mode = 0040755}, ErrorCode::unsafe_path, "demo/odd");
  expect_refused({.name = "demo/odd", .content = "", .dos_attributes = 0x10}, ErrorCode::corrupt, "demo/odd");
  expect_refused({.name = "demo/odd/", .content = "x", .mode = 0040755}, ErrorCode::corrupt, "has content");
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

TEST_F(HostileWheel, a_local_header_with_another_method_checksum_or_flags_is_refused) {
  const auto lie = [](int at) {
    const auto offset = static_cast<std::size_t>(at);
    WheelBuilder wheel = good();
    std::string bytes = wheel.bytes();
    bytes[offset] = static_cast<char>(bytes[offset] ^ 2);  // of the first local header, which begins the file
    return bytes;
  };
  for (const auto& [offset, what] : {std::pair(6, "flags"), std::pair(8, "methods"), std::pair(14, "checksums")})
    expect_refused(source("demo-1.0-py3-none-any.whl", lie(offset)), ErrorCode::corrupt, what);
}

// The differentials behind uv's CVE-2025-54368 and GHSA-pqhf-p39g-3x64: a reader that streams from the first byte and
// one that starts at the directory must not see two different wheels.
TEST_F(HostileWheel, an_entry_that_the_directory_does_not_list_is_refused) {
  for (const std::size_t place : {0, 1}) {
    WheelBuilder wheel = good();
    wheel.spoil = [place](auto& members) {
      members.insert(members.begin() + static_cast<std::ptrdiff_t>(place),
                     {.name = "demo/__init__.py", .content = "evil\n", .hidden = true});
    };
    expect_refused(wheel, ErrorCode::corrupt, place == 0 ? "data before its first file" : "hidden data behind");
  }
  WheelBuilder last = good();
  last.spoil = [](auto& members) { members.push_back({.name = "demo/evil.py", .content = "evil\n", .hidden = true}); };
  expect_refused(last, ErrorCode::corrupt, "hidden data behind");
}

TEST_F(HostileWheel, a_directory_entry_without_a_local_header_is_refused) {
  WheelBuilder wheel = good();
  std::string bytes = wheel.bytes();
  bytes[0] = 'X';
  expect_refused(source("demo-1.0-py3-none-any.whl", bytes), ErrorCode::corrupt, "no local header");
}

TEST_F(HostileWheel, an_end_record_that_counts_wrongly_is_refused) {
  for (const std::uint64_t entries : {2U, 9U}) {
    WheelBuilder wheel = good();
    wheel.lies.entries = entries;
    expect_refused(wheel, ErrorCode::corrupt, entries == 2 ? "more than its end record" : "less than its end record");
  }
}

TEST_F(HostileWheel, a_comment_that_another_reader_takes_for_the_end_is_refused) {
  WheelBuilder wheel = good();
  std::string inner = make_zip({});
  inner[20] = 9;  // its own comment would not reach the end: some readers do not mind
  wheel.lies.comment = inner;
  expect_refused(wheel, ErrorCode::corrupt, "two ends");
}

TEST_F(HostileWheel, an_archive_with_an_honest_comment_is_taken) {
  WheelBuilder wheel = good();
  wheel.lies.comment = "made by hand";
  EXPECT_TRUE(install(wheel));
}

TEST_F(HostileWheel, zip64_sizes_that_nobody_announced_are_refused_unless_they_agree) {
  const auto zip64 = [](std::vector<std::uint64_t> values) {
    std::string extra;
    put(extra, 1, 2);
    put(extra, values.size() * 8, 2);
    for (const std::uint64_t value : values) put(extra, value, 8);
    return extra;
  };
  expect_refused({.name = "demo/seen.py", .content = "x", .extra = zip64({9000, 1})}, ErrorCode::corrupt, "demo-1.0");
  expect_refused({.name = "demo/seen.py", .content = "x", .local_extra = zip64({9000, 9000})}, ErrorCode::corrupt,
                 "demo-1.0");
  expect_refused({.name = "demo/seen.py", .content = "x", .extra = zip64({1})}, ErrorCode::corrupt, "demo-1.0");
  WheelBuilder wheel = good();
  wheel.members.push_back(
      {.name = "demo/seen.py", .content = "x", .extra = zip64({1, 1}), .local_extra = zip64({1, 1})});
  EXPECT_TRUE(install(wheel));
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

TEST_F(HostileWheel, a_size_that_differs_from_record_is_refused) {
  WheelBuilder wheel = good();
  wheel.spoil_record = [](std::string& record) {
    const auto at = record.find("demo/__init__.py,");
    record.insert(record.find('\n', at), "0");
  };
  expect_refused(wheel, ErrorCode::hash_mismatch, "'demo/__init__.py' differs");
}

TEST_F(HostileWheel, a_file_that_record_lists_twice_is_refused) {
  WheelBuilder wheel = good();
  wheel.spoil_record = [](std::string& record) {
    const auto at = record.find("demo/__init__.py,");
    record += record.substr(at, record.find('\n', at) - at + 1);
  };
  expect_refused(wheel, ErrorCode::corrupt, "lists 'demo/__init__.py' twice");
}

TEST_F(HostileWheel, a_record_that_names_a_file_outside_of_the_wheel_is_refused) {
  for (const char* name : {"../../../outside", "/etc/passwd"}) {
    WheelBuilder wheel = good();
    wheel.spoil_record = [name](std::string& record) { record += fmt::format("{},sha256=abc,1\n", name); };
    expect_refused(wheel, ErrorCode::corrupt, name);
  }
}

TEST_F(HostileWheel, a_record_that_is_no_table_is_refused) {
  for (const char* text : {"\"open quote\n", "a,b\n", "a,sha256=x,many\n", "a,sha256=x,1,more\n", ",sha256=x,1\n"}) {
    WheelBuilder wheel = good();
    wheel.spoil_record = [text](std::string& record) { record.insert(0, text); };
    expect_refused(wheel, ErrorCode::corrupt, "demo-1.0");
  }
}

TEST_F(HostileWheel, a_strong_hash_is_checked_too) {
  const auto with_hash = [](const std::string& hash) {
    WheelBuilder wheel = good();
    wheel.spoil_record = [hash](std::string& record) {
      const auto at = record.find("demo/__init__.py,");
      record.replace(at, record.find('\n', at) - at, "demo/__init__.py,sha384=" + hash + ",12");
    };
    return wheel;
  };
  expect_refused(with_hash("abc"), ErrorCode::hash_mismatch, "'demo/__init__.py' differs");
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
  // uv's GHSA-4gg8-gxpx-9rph: absolute ones too, which a path join would follow.
  for (const char* name : {"../outside", "a/b", "..", ".", "a\\b", "/tmp/outside", "../bin-evil/outside"}) {
    WheelBuilder wheel = good();
    wheel.add("demo-1.0.dist-info/entry_points.txt", fmt::format("[console_scripts]\n{} = demo:main\n", name));
    expect_refused(wheel, ErrorCode::unsafe_path, name);
  }
}

TEST_F(HostileWheel, a_wheel_that_lacks_what_every_wheel_has_is_refused) {
  for (const char* missing : {"METADATA", "WHEEL"}) {
    WheelBuilder wheel = good();
    const auto is_it = [missing](const Member& member) { return member.name.ends_with(missing); };
    wheel.spoil = [is_it](auto& members) { std::erase_if(members, is_it); };
    wheel.spoil_record = [missing](std::string& record) {
      const auto at = record.find(fmt::format("demo-1.0.dist-info/{},", missing));
      record.erase(at, record.find('\n', at) - at + 1);
    };
    expect_refused(wheel, ErrorCode::corrupt, missing);
  }
}

TEST_F(HostileWheel, a_wheel_of_a_later_format_is_refused) {
  WheelBuilder wheel = good();
  wheel.add("demo-1.0.dist-info/WHEEL", "Wheel-Version: 2.0\n");
  expect_refused(wheel, ErrorCode::unsupported, "'2.0'");
}

TEST_F(HostileWheel, an_unknown_data_scheme_is_refused) {
  expect_refused({.name = "demo-1.0.data/etc/passwd", .content = "x"}, ErrorCode::corrupt, "unknown scheme 'etc'");
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
