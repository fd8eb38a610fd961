// What no single format owns: encodings, access, the entry command, the order.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <chrono>

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

TEST_F(Read, what_cannot_be_read_says_what_to_do) {
  using testing::IsEmpty;
  using testing::Not;
  const auto hints = [&](const std::string& file, const std::string& content) {
    write(file, content);
    auto found = refusal().hints;
    std::filesystem::remove(root() / file);
    return found;
  };
  const std::string binary(
      "\x7F"
      "ELF\0\0",
      6);
  for (const char* file : {"requirements.txt", "pyproject.toml", "environment.yml", "Pipfile", "setup.py", "setup.cfg",
                           "pylock.toml", "uv.lock", "trail.toml"})
    EXPECT_THAT(hints(file, binary), Not(IsEmpty())) << file;
  EXPECT_THAT(hints("pyproject.toml", "[project\n"), Not(IsEmpty()));
  EXPECT_THAT(hints("environment.yml", "dependencies:\n\t- six\n"), Not(IsEmpty()));
  EXPECT_THAT(hints("requirements.txt", "{\"a\": 1}\n"), Not(IsEmpty()));
}

TEST_F(Read, nesting_of_any_kind_is_refused_or_read_but_never_overflows) {
  const auto repeated = [](const std::string& text, int times) {
    std::string result;
    for (int i = 0; i < times; ++i) result += text;
    return result;
  };
  write("pyproject.toml", "[" + repeated("a.", 50000) + "a]\n");
  EXPECT_THAT(refusal().message, HasSubstr("a key has more than"));
  write("pyproject.toml", repeated("\"a\" . ", 50000) + "a = 1\n");
  EXPECT_THAT(refusal().message, HasSubstr("a key has more than"));
  write("pyproject.toml", repeated("a.a.a.a.a.a.a.a = { ", 200) + "b = 1" + repeated(" }", 200) + "\n");
  EXPECT_THAT(refusal().message, HasSubstr("not valid TOML"));
  write("pyproject.toml", "[project]\nname = \"x\"\ndescription = \"" + repeated("One. Two words. ", 400) + "\"\n");
  EXPECT_TRUE(read(root(), {}).has_value()) << "prose is no key";
  std::filesystem::remove(root() / "pyproject.toml");
  write("requirements.txt", "torch ; " + repeated("(", 100000) + "python_version > '3'" + repeated(")", 100000) + "\n");
  EXPECT_THAT(refusal().message, HasSubstr("is not a valid requirement"));
  EXPECT_LT(refusal().message.size(), 1000U);
}

TEST_F(Read, many_thousands_of_requirements_are_read_at_once) {
  std::string text;
  for (int i = 0; i < 50000; ++i) text += "package" + std::to_string(i) + "\n";
  write("requirements.txt", text);
  const auto began = std::chrono::steady_clock::now();
  EXPECT_EQ(needs().packages.size(), 50000U);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(20)) << "pairs were compared";
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
  EXPECT_FALSE(refusal().hints.empty());
  EXPECT_THAT(refusal().message, HasSubstr("requirements.txt is not a regular file"));
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
  write("src/other/__main__.py", "");
  EXPECT_THAT(needs().import_roots, ElementsAre("src"));
  write("src/__init__.py", "");
  EXPECT_THAT(needs().import_roots, ElementsAre(".")) << "src itself is the package";
}

TEST_F(Read, a_folder_of_scripts_has_no_packages_of_its_own) {
  write("requirements.txt", "torch\n");
  write("models/__init__.py", "");
  EXPECT_THAT(needs().import_roots, ElementsAre());
  write("pyproject.toml", "[tool.ruff]\nline-length = 100\n");
  write("setup.cfg", "[flake8]\nmax-line-length = 100\n");
  EXPECT_THAT(needs().import_roots, ElementsAre());
  write("setup.py", "from setuptools import setup\nsetup(name='x')\n");
  EXPECT_THAT(needs().import_roots, ElementsAre("."));
}

TEST_F(Read, a_project_with_a_build_system_is_a_package) {
  const std::string project = "[project]\nname = \"My.Own_package\"\nversion = \"1\"\ndependencies = [\"torch\"]\n";
  const std::string build = "[build-system]\nrequires = [\"hatchling\"]\n";
  write("pyproject.toml", project);
  EXPECT_FALSE(needs().own_package);
  write("pyproject.toml", project + build);
  EXPECT_EQ(needs().own_package->value, "my-own-package");
  EXPECT_EQ(to_text(needs().own_package->origin), "pyproject.toml:2");
  write("pyproject.toml", project + build + "[tool.uv]\npackage = false\n");
  EXPECT_FALSE(needs().own_package);
  write("pyproject.toml", project + "[tool.uv]\npackage = true\n");
  EXPECT_TRUE(needs().own_package);
}

TEST_F(Read, a_poetry_project_is_a_package_unless_it_says_otherwise) {
  const std::string poetry = "[build-system]\nrequires = [\"poetry-core\"]\n[tool.poetry]\nname = \"x\"\n";
  write("pyproject.toml", poetry + "[tool.poetry.dependencies]\ntorch = \"*\"\n");
  EXPECT_EQ(needs().own_package->value, "x");
  write("pyproject.toml", poetry + "package-mode = false\n[tool.poetry.dependencies]\ntorch = \"*\"\n");
  EXPECT_FALSE(needs().own_package);
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
