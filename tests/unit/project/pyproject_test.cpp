#include "project/pyproject.hpp"

#include <gmock/gmock.h>

#include "project/project_folder.hpp"

namespace startrail::project {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

class Pyproject : public ProjectFolder {};

TEST_F(Pyproject, dependencies_python_and_places_are_read) {
  write("pyproject.toml",
        "[project]\n"
        "name = \"x\"\n"
        "requires-python = \">=3.9\"\n"
        "dependencies = [\n"
        "  \"torch>=2.0\",\n"
        "  \"numpy; python_version < '3.13'\",\n"
        "]\n"
        "[project.optional-dependencies]\n"
        "train = [\"wandb\"]\n"
        "[dependency-groups]\n"
        "dev = [\"pytest\"]\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.declared_by, DeclaredBy::pyproject);
  EXPECT_EQ(needs.python->value, ">=3.9");
  EXPECT_EQ(to_text(needs.python->origin), "pyproject.toml:3");
  EXPECT_THAT(lines(needs.packages), ElementsAre("5: torch>=2.0", "6: numpy ; python_version < '3.13'"));
  EXPECT_THAT(note_texts(needs), Contains(HasSubstr("dependency group dev is not taken")));
  EXPECT_THAT(note_texts(needs), Contains(HasSubstr("optional dependencies (train) are not taken")));
}

TEST_F(Pyproject, groups_are_taken_when_named_or_when_there_is_nothing_else) {
  write("pyproject.toml",
        "[dependency-groups]\nmain = [\"torch\", {include-group = \"extra_bits\"}]\nExtra-Bits = [\"tqdm\"]\ntest = "
        "[\"pytest\"]\n");
  EXPECT_THAT(lines(needs().packages), testing::UnorderedElementsAre("2: torch", "3: tqdm"));
  write("pyproject.toml",
        "[project]\nname = \"x\"\ndependencies = [\"torch\"]\n[dependency-groups]\ndev = [\"rich\"]\nother = "
        "[\"wandb\"]\n"
        "[tool.uv]\ndefault-groups = [\"dev\"]\n");
  EXPECT_THAT(lines(needs().packages), ElementsAre("3: torch", "5: rich"));
}

TEST_F(Pyproject, uvs_indexes_and_sources_decide_where_packages_come_from) {
  write("pyproject.toml",
        "[project]\nname = \"x\"\ndependencies = [\"torch>=2\", \"mine\", \"thing[a]>=1\", \"direct\"]\n"
        "[[tool.uv.index]]\nname = \"cu\"\nurl = \"https://wheels.example/cu\"\nexplicit = true\n"
        "[[tool.uv.index]]\nurl = \"https://mirror.example/simple\"\ndefault = true\n"
        "[[tool.uv.index]]\nurl = \"https://more.example/simple\"\n"
        "[tool.uv.sources]\n"
        "torch = [{ index = \"cpu\", marker = \"sys_platform == 'darwin'\" }, { index = \"cu\", marker = "
        "\"sys_platform == 'linux'\" }]\n"
        "mine = { git = \"https://example.org/mine\", rev = \"abc\", subdirectory = \"py\" }\n"
        "thing = { path = \"libs/thing\", editable = true }\n"
        "direct = { url = \"https://example.org/direct-1.zip\" }\n");
  write("libs/thing/setup.py", "");
  const Requirements needs = this->needs();
  EXPECT_THAT(lines(needs.packages),
              ElementsAre("3: torch>=2", "3: mine @ git+https://example.org/mine@abc#subdirectory=py",
                          "3: -e ./libs/thing[a]", "3: direct @ https://example.org/direct-1.zip"));
  EXPECT_EQ(needs.indexes.index_url->value, "https://mirror.example/simple");
  ASSERT_EQ(needs.indexes.extra_index_urls.size(), 1U);
  EXPECT_THAT(needs.indexes.package_index, ElementsAre(Pair("torch", "https://wheels.example/cu")));
}

TEST_F(Pyproject, an_index_that_is_not_defined_is_refused) {
  write("pyproject.toml",
        "[project]\nname=\"x\"\ndependencies=[\"torch\"]\n[tool.uv.sources]\ntorch = {index = \"cu\"}\n");
  EXPECT_THAT(refusal().message, HasSubstr("pyproject.toml:5: torch is to come from an index `cu` that isn't defined"));
}

TEST(PoetrySpecifier, carets_and_tildes_become_ranges) {
  const auto converted = [](std::string_view text) { return poetry_specifier(text).value(); };
  EXPECT_EQ(converted("^1.2.3"), ">=1.2.3,<2");
  EXPECT_EQ(converted("^0.2.3"), ">=0.2.3,<0.3");
  EXPECT_EQ(converted("^0.0.3"), ">=0.0.3,<0.0.4");
  EXPECT_EQ(converted("^0.0"), ">=0.0,<0.1");
  EXPECT_EQ(converted("^0"), ">=0,<1");
  EXPECT_EQ(converted("~1.2.3"), ">=1.2.3,<1.3");
  EXPECT_EQ(converted("~1"), ">=1,<2");
  EXPECT_EQ(converted("*"), "");
  EXPECT_EQ(converted("1.2.*"), "==1.2.*");
  EXPECT_EQ(converted("2.0.1"), "==2.0.1");
  EXPECT_EQ(converted(">= 1.0 <2.0"), ">=1.0,<2.0");
  EXPECT_EQ(converted("^1.2,!=1.3"), ">=1.2,<2,!=1.3");
  EXPECT_FALSE(poetry_specifier("latest"));
}

TEST_F(Pyproject, poetrys_tables_are_read_without_the_groups_for_development) {
  write("pyproject.toml",
        "[tool.poetry]\nname = \"x\"\n"
        "[tool.poetry.dependencies]\n"
        "python = \"^3.8\"\n"
        "torch = { version = \"~2.1\", source = \"cu\" }\n"
        "clip = { git = \"https://example.org/clip.git\", branch = \"main\" }\n"
        "wandb = { version = \"*\", optional = true }\n"
        "win = { version = \"1.0\", platform = \"win32\" }\n"
        "old = { version = \"^1\", python = \"<3.9\" }\n"
        "[tool.poetry.group.dev.dependencies]\npytest = \"*\"\n"
        "[tool.poetry.group.train.dependencies]\nlightning = \"^2\"\n"
        "[[tool.poetry.source]]\nname = \"cu\"\nurl = \"https://wheels.example/cu\"\npriority = \"explicit\"\n");
  write("poetry.lock", "");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.python->value, ">=3.8,<4");
  EXPECT_EQ(needs.python->origin.line, 4);
  EXPECT_THAT(lines(needs.packages),
              ElementsAre("5: torch>=2.1,<2.2", "6: clip @ git+https://example.org/clip.git@main",
                          "9: old>=1,<2 ; python_version < '3.9'", "13: lightning>=2,<3"));
  EXPECT_THAT(needs.indexes.package_index, ElementsAre(Pair("torch", "https://wheels.example/cu")));
  EXPECT_THAT(note_texts(needs), Contains(HasSubstr("optional dependencies are not taken: wandb")));
  EXPECT_THAT(note_texts(needs), Contains(HasSubstr("(dev) are not taken")));
  EXPECT_THAT(note_texts(needs), Contains(HasSubstr("poetry.lock: this lock is not read")));
}

TEST_F(Pyproject, a_file_of_linter_settings_does_not_end_the_search) {
  write("pyproject.toml", "[project]\nname=\"x\"\nrequires-python = \">=3.10\"\n[tool.ruff]\nline-length = 100\n");
  write("requirements.txt", "torch\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.declared_by, DeclaredBy::requirements_txt);
  EXPECT_EQ(needs.python->value, ">=3.10");
}

TEST_F(Pyproject, dynamic_dependencies_come_from_the_files_they_name) {
  write("pyproject.toml",
        "[project]\nname=\"x\"\ndynamic = [\"dependencies\"]\n[tool.setuptools.dynamic]\ndependencies = {file = "
        "[\"deps.txt\"]}\n");
  write("deps.txt", "torch\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.declared_by, DeclaredBy::pyproject);
  EXPECT_EQ(to_text(needs.packages.at(0).origin), "deps.txt:1");
}

TEST_F(Pyproject, its_digest_depends_on_the_deciding_tables_only) {
  const auto digest = [&](std::string_view text) {
    write("pyproject.toml", text);
    return needs().sources.at(0).sha256;
  };
  const std::string first = digest("[project]\nname=\"x\"\nversion=\"1\"\ndependencies=[\"torch\"]\n");
  EXPECT_EQ(first, digest("[project]\nname=\"x\"\nversion=\"2\"\ndependencies=[\"torch\"]\n[tool.ruff]\nx=1\n"));
  EXPECT_NE(first, digest("[project]\nname=\"x\"\nversion=\"1\"\ndependencies=[\"torch>1\"]\n"));
}

TEST_F(Pyproject, bad_content_names_its_line) {
  write("pyproject.toml", "[project]\nname=\"x\"\ndependencies=[\n\"torch=1\"]\n");
  EXPECT_THAT(refusal().message, HasSubstr("pyproject.toml:4: `torch=1`"));
  write("pyproject.toml", "[project\n");
  EXPECT_EQ(refusal().code, ErrorCode::corrupt);
  EXPECT_THAT(refusal().message, HasSubstr("pyproject.toml:1: not valid TOML"));
}

}  // namespace
}  // namespace startrail::project
