// Packages from the code itself.
#include <gmock/gmock.h>

#include "project/project_folder.hpp"

namespace startrail::project {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class Imports : public ProjectFolder {
 protected:
  Imports() {
    write(".lists/map", "yaml:PyYAML\nfoo_module:foo-dist\n");
    write(".lists/standard", "os\nsys\n");
    m_options.module_map = root() / ".lists/map";
    m_options.standard_library_list = root() / ".lists/standard";
  }
  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> result;
    for (const Requirement& requirement : needs().packages) result.push_back(requirement.name);
    return result;
  }
};

TEST_F(Imports, modules_become_distributions_with_their_places) {
  write("train.py",
        "import os, torch\nimport cv2\nfrom foo_module import x\nimport models\nfrom strange_thing import y\n");
  write("models/net.py", "import torch.nn as nn\nimport utils\nimport yaml\n");
  write("models/utils.py", "");
  EXPECT_TRUE(needs_module_map(root()));
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.declared_by, DeclaredBy::imports);
  EXPECT_THAT(lines(needs.packages),
              ElementsAre("3: foo-dist", "2: opencv-python", "3: pyyaml", "5: strange-thing", "1: torch"));
  EXPECT_EQ(needs.packages[2].origin.file, "models/net.py");
  EXPECT_THAT(note_texts(needs), Contains("imports: taken as packages of the same name: strange_thing"));
  EXPECT_EQ(needs.sources.at(0).file, "imports");
}

TEST_F(Imports, optional_ones_stay_only_when_they_are_known) {
  write("train.py",
        "import torch\ntry:\n    import wandb\n    import mystery\nexcept ImportError:\n    wandb = None\n");
  EXPECT_THAT(names(), ElementsAre("torch", "wandb"));
  EXPECT_THAT(note_texts(needs()), Contains("imports: imported only if present, and left out: mystery"));
}

TEST_F(Imports, a_module_the_index_has_under_another_meaning_is_not_guessed) {
  write("train.py", "import torch\nfrom apex import amp\n");
  EXPECT_THAT(names(), ElementsAre("torch"));
  EXPECT_THAT(note_texts(needs()), Contains(HasSubstr("not in the package index under that name: apex")));
}

TEST_F(Imports, tests_environments_and_build_output_are_kept_out) {
  write("train.py", "import torch\n");
  write("tests/test_it.py", "import pytest_only\n");
  write("test_more.py", "import hypothesis\n");
  write("env-of-mine/pyvenv.cfg", "");
  write("env-of-mine/lib/x.py", "import inside_venv\n");
  write("node_modules/x.py", "import inside_node\n");
  write("build/x.py", "import inside_build\n");
  write(".hidden/x.py", "import inside_hidden\n");
  write("setup.py", "import setuptools_thing\n");
  EXPECT_THAT(names(), ElementsAre("torch"));
}

TEST_F(Imports, tests_alone_are_better_than_nothing) {
  write("tests/test_it.py", "import torch\n");
  EXPECT_THAT(names(), ElementsAre("torch"));
}

TEST_F(Imports, a_folder_deeper_down_does_not_hide_a_known_package) {
  write("train.py", "from datasets import load_dataset\n");
  write("tools/old/datasets/x.py", "");
  EXPECT_THAT(names(), ElementsAre("datasets"));
  write("datasets/x.py", "");
  EXPECT_THAT(names(), IsEmpty());
}

TEST_F(Imports, the_digest_follows_the_imports_and_not_the_code) {
  write("train.py", "import torch\n");
  const std::string first = needs().sources.at(0).sha256;
  write("train.py", "import torch\nprint(1)\n");
  EXPECT_EQ(needs().sources.at(0).sha256, first);
  write("train.py", "import torch, tqdm\n");
  EXPECT_NE(needs().sources.at(0).sha256, first);
}

TEST_F(Imports, huge_files_and_loops_of_links_are_passed_by) {
  write("train.py", "import torch\n");
  write("data.py", "import hidden_in_data\n" + std::string(2'100'000, '#'));
  std::filesystem::create_directory_symlink(root(), root() / "loop");
  std::filesystem::create_symlink(root() / "self.py", root() / "self.py");
  EXPECT_THAT(names(), ElementsAre("torch"));
  EXPECT_THAT(note_texts(needs()), Contains(HasSubstr("data.py: larger than 2 MB")));
}

TEST_F(Imports, nothing_is_needed_where_there_is_no_code) {
  EXPECT_FALSE(needs_module_map(root()));
  EXPECT_EQ(needs().declared_by, DeclaredBy::nothing);
}

TEST_F(Imports, an_undeclared_framework_is_told) {
  write("requirements.txt", "regex\n");
  write("src/model.py", "import re\nimport tensorflow as tf\n");
  EXPECT_FALSE(needs_module_map(root()));
  EXPECT_THAT(note_texts(needs()), Contains(HasSubstr("src/model.py:2: imports tensorflow, which no file declares")));
  write("requirements.txt", "regex\ntensorflow\n");
  EXPECT_THAT(note_texts(needs()), Not(Contains(HasSubstr("imports tensorflow"))));
}

}  // namespace
}  // namespace startrail::project
