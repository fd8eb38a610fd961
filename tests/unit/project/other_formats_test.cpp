// Pipfile, setup.cfg, setup.py, and locks of other tools.
#include <gmock/gmock.h>

#include "project/project_folder.hpp"

namespace startrail::project {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class OtherFormats : public ProjectFolder {};

TEST_F(OtherFormats, a_pipfile_gives_packages_python_and_sources) {
  write("Pipfile",
        "[[source]]\nname = \"main\"\nurl = \"https://mirror.example/simple\"\n"
        "[[source]]\nname = \"cu\"\nurl = \"https://wheels.example/cu\"\n"
        "[packages]\n"
        "torch = {version = \"==2.0.1\", index = \"cu\"}\n"
        "numpy = \"*\"\n"
        "clip = {git = \"https://example.org/clip.git\", ref = \"main\"}\n"
        "colorama = {version = \"~=0.4\", sys_platform = \"== 'win32'\"}\n"
        "[dev-packages]\npytest = \"*\"\n"
        "[requires]\npython_version = \"3.10\"\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.declared_by, DeclaredBy::pipfile);
  EXPECT_THAT(lines(needs.packages),
              ElementsAre("8: torch==2.0.1", "9: numpy", "10: clip @ git+https://example.org/clip.git@main"));
  EXPECT_EQ(needs.python->value, "==3.10.*");
  EXPECT_EQ(needs.python->origin.line, 15);
  EXPECT_EQ(needs.indexes.index_url->value, "https://mirror.example/simple");
  EXPECT_EQ(needs.indexes.package_index.at("torch"), "https://wheels.example/cu");
  EXPECT_THAT(note_texts(needs), Contains(HasSubstr("dev-packages are not taken")));
}

TEST_F(OtherFormats, setup_cfg_is_read_with_its_lines) {
  write("setup.cfg",
        "[metadata]\nname = x\n\n[options]\npython_requires = >=3.7\ninstall_requires =\n    torch>=1.8\n    # a "
        "comment\n    numpy ; python_version < '3.9'\n"
        "[options.extras_require]\ntest = pytest\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.declared_by, DeclaredBy::setup_py);
  EXPECT_EQ(needs.python->value, ">=3.7");
  EXPECT_THAT(lines(needs.packages), ElementsAre("7: torch>=1.8", "9: numpy ; python_version < '3.9'"));
}

TEST_F(OtherFormats, literals_of_setup_py_are_found_without_running_it) {
  write("setup.py",
        "import os\nfrom setuptools import setup\n"
        "BASE = ['numpy',\n        'tqdm']\n"
        "BASE += ['scipy']\n"
        "os.system('touch must-not-exist')\n"
        "setup(name='x',\n"
        "      python_requires='>=3.6',\n"
        "      install_requires=BASE + [\n"
        "          'torch'\n"
        "          '>=1.0',  # joined\n"
        "      ],\n"
        "      extras_require={'dev': ['pytest']})\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.python->value, ">=3.6");
  EXPECT_THAT(lines(needs.packages), ElementsAre("3: numpy", "4: tqdm", "5: scipy", "10: torch>=1.0"));
  EXPECT_FALSE(std::filesystem::exists(root() / "must-not-exist"));
}

TEST_F(OtherFormats, a_setup_py_that_computes_its_needs_says_so) {
  write("setup.py", "from setuptools import setup\nsetup(install_requires=[l for l in open('deps')])\n");
  const Requirements needs = this->needs();
  EXPECT_THAT(needs.packages, IsEmpty());
  write("setup.py",
        "from setuptools import setup\nsetup(install_requires=open('reqs/requirements.txt').read().split())\n");
  write("reqs/requirements.txt", "torch\n");
  const Requirements second = this->needs();
  EXPECT_THAT(lines(second.packages), ElementsAre("1: torch"));
  EXPECT_THAT(note_texts(second),
              Contains(HasSubstr("setup.py:2: install_requires is read from reqs/requirements.txt")));
}

TEST_F(OtherFormats, a_pylock_is_taken_as_it_is_but_never_our_own) {
  write("pylock.trail.toml", "lock-version = \"1.0\"\n");
  write("requirements.txt", "torch\n");
  EXPECT_EQ(needs().declared_by, DeclaredBy::requirements_txt);
  write("pylock.toml",
        "lock-version = \"1.0\"\nrequires-python = \">=3.10\"\n[[packages]]\nname = \"torch\"\nversion = \"2.6.0\"\n"
        "[[packages]]\nname = \"pywin32\"\nversion = \"300\"\nmarker = \"sys_platform == 'win32'\"\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.declared_by, DeclaredBy::pylock);
  EXPECT_EQ(needs.existing_lock->value, "pylock.toml");
  EXPECT_EQ(needs.python->value, ">=3.10");
  EXPECT_THAT(lines(needs.packages), ElementsAre("4: torch==2.6.0"));
}

TEST_F(OtherFormats, a_named_pylock_is_found_too) {
  write("pylock.cu.toml", "lock-version = \"1.0\"\n[[packages]]\nname = \"jax\"\nversion = \"0.5.0\"\n");
  EXPECT_EQ(needs().existing_lock->value, "pylock.cu.toml");
}

TEST_F(OtherFormats, a_uv_lock_comes_before_its_pyproject) {
  write("pyproject.toml",
        "[project]\nname = \"x\"\ndependencies = [\"torch\"]\n[[tool.uv.index]]\nurl = \"https://i.example\"\n");
  write("uv.lock",
        "version = 1\nrequires-python = \">=3.11\"\n[[package]]\nname = \"torch\"\nversion = \"2.5.1\"\n"
        "[[package]]\nname = \"x\"\nversion = \"0.1\"\nsource = { virtual = \".\" }\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.declared_by, DeclaredBy::uv_lock);
  EXPECT_THAT(lines(needs.packages), ElementsAre("4: torch==2.5.1"));
  EXPECT_EQ(needs.indexes.extra_index_urls.size(), 1U);
  EXPECT_EQ(needs.python->value, ">=3.11");
}

}  // namespace
}  // namespace startrail::project
