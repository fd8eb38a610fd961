#include "image/verify/elf_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "image/verify/inside.hpp"

namespace startrail::image {
namespace {

using ::testing::Contains;
using ::testing::Not;

// This test program itself: the linker of this machine made it.
std::string own_bytes() {
  return *base::read_file("/proc/self/exe");
}

TEST(ElfFile, says_what_a_program_needs_and_in_which_version) {
  const auto elf = parse_elf(own_bytes());
  ASSERT_TRUE(elf);
  EXPECT_THAT(elf->needed, Contains("libc.so.6"));
  bool needs_glibc = false;
  for (const auto& needed : elf->needed_versions)
    needs_glibc |= needed.library == "libc.so.6" && needed.version.starts_with("GLIBC_2.");
  EXPECT_TRUE(needs_glibc);
}

TEST(ElfFile, says_what_a_library_is_called_and_which_versions_it_has) {
  for (const char* path : {"/lib/x86_64-linux-gnu/libc.so.6", "/usr/lib64/libc.so.6"}) {
    std::error_code missing;
    const auto real = fs::canonical(path, missing);
    if (missing) continue;
    const auto elf = read_elf(real);
    ASSERT_TRUE(elf && *elf);
    EXPECT_EQ((*elf)->soname, "libc.so.6");
    EXPECT_THAT((*elf)->versions, Contains("GLIBC_2.2.5"));
    return;
  }
  GTEST_SKIP() << "no libc.so.6 in a place that is known";
}

TEST(ElfFile, anything_else_is_none) {
  EXPECT_FALSE(parse_elf(""));
  EXPECT_FALSE(
      parse_elf("\x7f"
                "ELF"));
  EXPECT_FALSE(parse_elf(std::string(4096, 'x')));
}

// Cut anywhere, or with any byte spoiled, it is read without leaving its bytes (the sanitizers watch), and ends.
TEST(ElfFile, a_damaged_file_gives_what_can_be_read) {
  const std::string whole = own_bytes();
  for (std::size_t length = 0; length < 4096; length += 7) static_cast<void>(parse_elf(whole.substr(0, length)));
  for (std::size_t place = 0; place < 1024; ++place) {
    std::string spoiled = whole.substr(0, 1U << 16U);
    spoiled[place] = static_cast<char>(spoiled[place] ^ 0xff);
    static_cast<void>(parse_elf(spoiled));
  }
}

class InsideTest : public ::testing::Test {
 protected:
  ~InsideTest() override { static_cast<void>(base::remove_tree(m_folder)); }
  void write(const std::string& path) const {
    ASSERT_TRUE(base::make_directories((m_folder / path).parent_path()));
    ASSERT_TRUE(base::write_file_atomic(m_folder / path, path));
  }
  void link(const std::string& path, const std::string& target) const {
    ASSERT_TRUE(base::make_directories((m_folder / path).parent_path()));
    fs::create_symlink(target, m_folder / path);
  }
  [[nodiscard]] std::string content(const std::string& path) const {
    const auto place = Inside({m_folder / "top", m_folder / "base"}).find(path);
    return place ? base::read_file(*place).value_or("a folder") : "none";
  }
  fs::path m_folder = *base::make_temporary_directory(fs::temp_directory_path(), "inside");
};

TEST_F(InsideTest, the_topmost_layer_wins_and_links_lead_through_all_of_them) {
  write("base/usr/lib/a.so");
  write("base/usr/lib/b.so");
  write("top/usr/lib/a.so");
  link("base/lib", "usr/lib");
  link("top/opt/env/lib/c.so", "../../../lib/b.so");
  link("top/absolute", "/usr/lib/b.so");
  EXPECT_EQ(content("/lib/a.so"), "top/usr/lib/a.so");
  EXPECT_EQ(content("/opt/env/lib/c.so"), "base/usr/lib/b.so");
  EXPECT_EQ(content("/absolute"), "base/usr/lib/b.so");
  EXPECT_EQ(content("/usr/lib/none.so"), "none");
}

TEST_F(InsideTest, links_never_lead_out_of_the_image_and_circles_end) {
  link("top/out", "../../../../../../etc/hostname");
  link("top/round", "about");
  link("top/about", "round");
  EXPECT_EQ(content("/out"), "none");
  EXPECT_EQ(content("/round"), "none");
}

}  // namespace
}  // namespace startrail::image
