// What no single format owns: encodings, access, the entry command, the order.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include "project/folder.hpp"
#include "project/project_folder.hpp"

namespace startrail::project {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Read : public ProjectFolder {};

TEST_F(Read, bytes_of_any_common_encoding_are_read) {
  write("requirements.txt", "\xEF\xBB\xBFtorch\r\nnumpy\r\n");
  EXPECT_THAT(lines(needs().packages), ElementsAre("1: torch", "2: numpy"));
  write("requirements.txt", std::string("\xFF\xFEt\0o\0r\0c\0h\0\r\0\n\0", 16) + std::string("j\0a\0x\0", 6));
  EXPECT_THAT(lines(needs().packages), ElementsAre("1: torch", "2: jax"));
  write("requirements.txt", "# caf\xE9\ntorch\n");
  EXPECT_THAT(lines(needs().packages), ElementsAre("2: torch"));
}

TEST_F(Read, binary_content_is_refused) {
  write("requirements.txt", std::string("tor\0ch\n", 7));
  EXPECT_EQ(refusal().message, "requirements.txt: it is not a text file");
}

TEST_F(Read, an_enormous_declaration_is_refused_unread) {
  write("requirements.txt", "torch\n");
  std::filesystem::resize_file(root() / "requirements.txt", 4ULL << 30U);
  EXPECT_THAT(refusal().message, HasSubstr("requirements.txt has 4.3 GB, too much"));
}

TEST_F(Read, an_enormous_other_file_does_not_matter) {
  write("requirements.txt", "torch\n");
  write("weights.txt", "");
  std::filesystem::resize_file(root() / "weights.txt", 4ULL << 30U);
  EXPECT_THAT(lines(needs().packages), ElementsAre("1: torch"));
  std::filesystem::remove(root() / "requirements.txt");
  EXPECT_EQ(needs().declared_by, DeclaredBy::nothing);
}

TEST_F(Read, a_pipe_in_the_place_of_a_file_is_not_waited_for) {
  ASSERT_EQ(::mkfifo((root() / "requirements.txt").c_str(), 0600), 0);
  EXPECT_EQ(needs().declared_by, DeclaredBy::nothing);
  write("other.txt", "-r requirements.txt\n");
  m_options.requirement_files = {"other.txt"};
  EXPECT_THAT(refusal().message, HasSubstr("requirements.txt is not a regular file"));
}

TEST_F(Read, a_link_to_itself_is_told) {
  std::filesystem::create_symlink(root() / "requirements.txt", root() / "requirements.txt");
  EXPECT_THAT(refusal().message, HasSubstr("requirements.txt is a link that leads back to itself"));
}

TEST_F(Read, a_file_without_permission_is_named) {
  write("requirements.txt", "torch\n");
  ASSERT_EQ(::chmod(root().c_str(), 0755), 0);
  ASSERT_EQ(::chmod((root() / "requirements.txt").c_str(), 0000), 0);
  const bool privileged = ::geteuid() == 0;
  if (privileged) {
    ASSERT_EQ(::seteuid(65534), 0);
  }
  const auto result = read_folder();
  if (privileged) {
    ASSERT_EQ(::seteuid(0), 0);
  }
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::permission);
  EXPECT_EQ(result.error().message, "cannot read requirements.txt: permission denied");
}

TEST_F(Read, a_missing_folder_and_a_file_are_told_apart) {
  EXPECT_EQ(read(root() / "absent", {}).error().code, ErrorCode::not_found);
  write("file", "");
  EXPECT_EQ(read(root() / "file", {}).error().code, ErrorCode::invalid_input);
}

TEST_F(Read, names_with_blanks_and_other_scripts_are_fine) {
  write("données d'été/requirements.txt", "torch\n");
  const auto result = read(root() / "données d'été", {});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->packages.size(), 1U);
}

TEST_F(Read, requirements_that_install_the_project_are_wider_than_its_pyproject) {
  write("pyproject.toml", "[project]\nname = 'mine'\nrequires-python = '>=3.9'\ndependencies = ['six']\n");
  write("requirements.txt", "-e .\nidna\n");
  const auto taken = needs();
  EXPECT_EQ(taken.declared_by, DeclaredBy::requirements_txt);
  ASSERT_EQ(taken.packages.size(), 2U);
  EXPECT_EQ(taken.packages[0].editable, Editable::yes);
  ASSERT_TRUE(taken.python);
  EXPECT_EQ(taken.python->value, ">=3.9");
}

TEST_F(Read, the_command_is_guessed_only_when_one_script_is_meant) {
  EXPECT_FALSE(needs().command);
  write("train.py", "print(1)\n");
  EXPECT_THAT(needs().command->value, ElementsAre("python", "train.py"));
  write("model.py", "");
  EXPECT_FALSE(needs().command) << "without a main guard and beside other sources";
  write("train.py", "if __name__ == '__main__':\n    print(1)\n");
  EXPECT_THAT(needs().command->value, ElementsAre("python", "train.py"));
  write("main.py", "if __name__ == '__main__':\n    print(1)\n");
  EXPECT_FALSE(needs().command) << "two candidates";
  write("trail.toml", "[run]\ncommand = [\"python\", \"main.py\"]\n");
  EXPECT_THAT(needs().command->value, ElementsAre("python", "main.py"));
}

TEST_F(Read, a_python_version_file_speaks_where_nothing_else_does) {
  write(".python-version", "3.10.4\n");
  write("requirements.txt", "torch\n");
  EXPECT_EQ(needs().python->value, "==3.10.*");
  write("pyproject.toml", "[project]\nname = \"x\"\nrequires-python = \">=3.9\"\n");
  EXPECT_EQ(needs().python->value, ">=3.9");
}

TEST_F(Read, the_projects_own_packages_are_located) {
  write("pyproject.toml", "[project]\nname = \"x\"\ndependencies = [\"torch\"]\n");
  EXPECT_THAT(needs().import_roots, ElementsAre());
  write("mypackage/__init__.py", "");
  EXPECT_THAT(needs().import_roots, ElementsAre("."));
  write("src/other/__init__.py", "");
  EXPECT_THAT(needs().import_roots, ElementsAre("src"));
}

TEST_F(Read, repeated_lines_count_once) {
  write("requirements.txt", "torch\nblack\nblack[jupyter]\nTorch\n");
  EXPECT_THAT(lines(needs().packages), ElementsAre("1: torch", "2: black", "3: black[jupyter]"));
}

TEST(DecodeText, utf_16_with_surrogates_becomes_utf_8) {
  EXPECT_EQ(decode_text(std::string("\xFE\xFF\xD8\x3D\xDE\x00", 6)).value(), "\xF0\x9F\x98\x80");
}

}  // namespace
}  // namespace startrail::project
