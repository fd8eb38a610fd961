#include "project/requirements_file.hpp"

#include <gmock/gmock.h>

#include <cstdlib>

#include "project/project_folder.hpp"

namespace startrail::project {
namespace {

using testing::_;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class RequirementsFile : public ProjectFolder {};

TEST_F(RequirementsFile, lines_keep_their_numbers_across_comments_and_continuations) {
  write("requirements.txt",
        "# header\r\n"
        "\r\n"
        "torch>=2.0  # the framework\r\n"
        "numpy \\\r\n"
        "  >=1.20,\\\r\n"
        "  <2\r\n"
        "   # indented comment\r\n"
        "tqdm");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.declared_by, DeclaredBy::requirements_txt);
  EXPECT_THAT(lines(needs.packages), ElementsAre("3: torch>=2.0", "4: numpy>=1.20,<2", "8: tqdm"));
  ASSERT_EQ(needs.sources.size(), 1U);
  EXPECT_EQ(needs.sources[0].file, "requirements.txt");
  EXPECT_EQ(needs.sources[0].sha256.size(), 64U);
}

TEST_F(RequirementsFile, includes_and_constraints_start_from_the_file_that_names_them) {
  write("requirements.txt", "-r requirements/base.txt\n-c constraints.txt\nwandb\n");
  write("requirements/base.txt", "--requirement=more.txt\ntorch\n");
  write("requirements/more.txt", "-r base.txt\nscipy\n");
  write("constraints.txt", "torch<2.5\n");
  const Requirements needs = this->needs();
  EXPECT_THAT(lines(needs.packages), ElementsAre("2: scipy", "2: torch", "3: wandb"));
  EXPECT_EQ(to_text(needs.packages[0].origin), "requirements/more.txt:2");
  EXPECT_THAT(lines(needs.constraints), ElementsAre("1: torch<2.5"));
  EXPECT_EQ(needs.sources.size(), 4U);
}

TEST_F(RequirementsFile, index_options_are_read_in_every_spelling) {
  write("wheels/readme", "");
  write("requirements.txt",
        "-i https://index.example/simple\n"
        "--extra-index-url=https://extra.example/a --extra-index-url https://extra.example/b\n"
        "-f wheels\n"
        "--find-links https://data.example/list.html\n"
        "--no-index\n"
        "--pre\n"
        "--trusted-host index.example\n"
        "torch\n");
  const Requirements needs = this->needs();
  ASSERT_TRUE(needs.indexes.index_url);
  EXPECT_EQ(needs.indexes.index_url->value, "https://index.example/simple");
  EXPECT_EQ(to_text(needs.indexes.index_url->origin), "requirements.txt:1");
  ASSERT_EQ(needs.indexes.extra_index_urls.size(), 2U);
  EXPECT_EQ(needs.indexes.extra_index_urls[1].value, "https://extra.example/b");
  ASSERT_EQ(needs.indexes.find_links.size(), 2U);
  EXPECT_EQ(needs.indexes.find_links[0].value, "wheels");
  EXPECT_EQ(needs.indexes.no_index->line, 5);
  EXPECT_EQ(needs.indexes.prereleases->line, 6);
  EXPECT_THAT(note_texts(needs), Contains("requirements.txt:7: --trusted-host is not followed"));
}

TEST_F(RequirementsFile, hashes_belong_to_their_requirement) {
  write("requirements.txt", "torch==2.0.0 \\\n  --hash=sha256:aa \\\n  --hash=sha256:bb\nnumpy==1.0\n");
  const Requirements needs = this->needs();
  EXPECT_THAT(needs.packages[0].hashes, ElementsAre("sha256:aa", "sha256:bb"));
  EXPECT_EQ(to_pep508(needs.packages[0]), "torch==2.0.0");
  EXPECT_THAT(needs.packages[1].hashes, IsEmpty());
}

TEST_F(RequirementsFile, environment_variables_are_filled_in_but_not_shown) {
  ::setenv("STARTRAIL_TEST_TOKEN", "s3cret", 1);
  write("requirements.txt",
        "mine @ https://${STARTRAIL_TEST_TOKEN}@example.org/mine-1.zip\n--index-url https://${UNSET_VARIABLE_X}/\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.packages[0].location, "https://s3cret@example.org/mine-1.zip");
  EXPECT_EQ(needs.packages[0].as_written, "mine @ https://${STARTRAIL_TEST_TOKEN}@example.org/mine-1.zip");
  EXPECT_EQ(needs.indexes.index_url->value, "https://${UNSET_VARIABLE_X}/");
}

TEST_F(RequirementsFile, every_bad_line_is_named_at_once) {
  write("requirements.txt", "numpy\ntorch~=1.12.1+cu113\ntqdm\ntorchvision~=0.13.1+cu113\n");
  const Error error = refusal();
  EXPECT_THAT(error.message, HasSubstr("requirements.txt:2: `torch~=1.12.1+cu113`"));
  EXPECT_THAT(error.context, ElementsAre(HasSubstr("requirements.txt:4: `torchvision~=0.13.1+cu113`")));
  EXPECT_THAT(error.hints, ElementsAre("write torch==1.12.1+cu113 or torch~=1.12.1",
                                       "line 4: write torchvision==0.13.1+cu113 or torchvision~=0.13.1"));
}

TEST_F(RequirementsFile, an_unknown_option_gets_the_likely_one) {
  write("requirements.txt", "torch\n--extra-index https://x.example\n");
  const Error error = refusal();
  EXPECT_THAT(error.message, HasSubstr("requirements.txt:2: pip has no option `--extra-index`"));
  EXPECT_THAT(error.hints, ElementsAre("did you mean --extra-index-url?"));
}

TEST_F(RequirementsFile, a_missing_include_names_the_line_that_wants_it) {
  write("requirements.txt", "torch\n-r base.txt\n");
  const Error error = refusal();
  EXPECT_EQ(error.code, ErrorCode::not_found);
  EXPECT_EQ(error.message, "requirements.txt:2: there is no file base.txt");
}

TEST_F(RequirementsFile, a_pin_of_pip_is_left_out_and_setuptools_stays) {
  write("requirements.txt", "pip==20.1.1\nsetuptools==65.0\nwheel\npython>=3.8\ntorch\n");
  const Requirements needs = this->needs();
  EXPECT_THAT(lines(needs.packages), ElementsAre("2: setuptools==65.0", "3: wheel", "5: torch"));
  EXPECT_EQ(needs.python->value, ">=3.8");
  EXPECT_THAT(note_texts(needs), Contains(HasSubstr("requirements.txt:1: pip==20.1.1 pins the installer")));
}

TEST_F(RequirementsFile, the_own_folder_stays_when_it_can_be_installed) {
  write("requirements.txt", "torch\n-e .\n");
  EXPECT_THAT(lines(needs().packages), ElementsAre("1: torch"));
  write("setup.py", "from setuptools import setup\nsetup()\n");
  EXPECT_THAT(lines(needs().packages), ElementsAre("1: torch", "2: -e ."));
}

TEST_F(RequirementsFile, a_path_of_condas_build_machine_means_the_package_itself) {
  write("requirements.txt", "numpy @ file:///tmp/build/80754af9/numpy_1620831194891/work\n");
  const Requirements needs = this->needs();
  EXPECT_THAT(lines(needs.packages), ElementsAre("1: numpy"));
  EXPECT_THAT(note_texts(needs), Contains(HasSubstr("conda's build machines; any version of numpy is taken")));
}

TEST_F(RequirementsFile, a_missing_path_is_an_error) {
  write("requirements.txt", "torch\n./vendor/thing\n");
  const Error error = refusal();
  EXPECT_EQ(error.code, ErrorCode::not_found);
  EXPECT_THAT(error.message, HasSubstr("requirements.txt:2"));
}

TEST_F(RequirementsFile, a_conda_list_under_pips_name_is_read_as_what_it_is) {
  write("requirements.txt",
        "# platform: "
        "linux-64\n_libgcc_mutex=0.1=main\npytorch=1.9.0=py3.7_cuda11.1_cudnn8.0.5_0\npython=3.7.10=h12debd9_4\nwandb="
        "0.12.0=pypi_0\n");
  const Requirements needs = this->needs();
  EXPECT_THAT(lines(needs.packages), ElementsAre("3: torch==1.9.0", "5: wandb==0.12.0"));
  EXPECT_EQ(needs.python->value, "==3.7.*");
  EXPECT_EQ(needs.cuda->value, "11.1");
}

TEST_F(RequirementsFile, the_main_file_is_chosen_and_the_others_are_told) {
  write("requirements-dev.txt", "pytest\n");
  write("requirements-cpu.txt", "torch\n");
  write("requirements-gpu.txt", "torch==2.0\n");
  const Requirements needs = this->needs();
  EXPECT_THAT(lines(needs.packages), ElementsAre("1: torch==2.0"));
  EXPECT_THAT(note_texts(needs), Contains(HasSubstr("requirements-cpu.txt and requirements-dev.txt are not read")));
  write("requirements.txt", "jax\n");
  EXPECT_THAT(lines(this->needs().packages), ElementsAre("1: jax"));
}

TEST_F(RequirementsFile, a_folder_of_requirements_is_looked_into) {
  write("requirements/test.txt", "pytest\n");
  write("requirements/base.txt", "torch\n");
  EXPECT_THAT(lines(needs().packages), ElementsAre("1: torch"));
}

TEST_F(RequirementsFile, named_files_replace_the_search) {
  write("requirements.txt", "torch\n");
  write("other.txt", "jax\n");
  m_options.requirement_files = {"other.txt"};
  EXPECT_THAT(lines(needs().packages), ElementsAre("1: jax"));
  m_options.requirement_files = {"absent.txt"};
  EXPECT_EQ(refusal().code, ErrorCode::not_found);
}

TEST_F(RequirementsFile, a_framework_in_a_comment_only_is_told) {
  write("requirements.txt", "torchdiffeq==0.1.1\n# torch==1.6.0=pypi_0\n");
  EXPECT_THAT(note_texts(needs()), Contains(HasSubstr("requirements.txt:2: torch==1.6.0 stands in a comment only")));
}

TEST_F(RequirementsFile, a_dockerfiles_framework_is_told_when_nothing_declares_one) {
  write("requirements.txt", "regex\n");
  write("Dockerfile", "# base\nFROM tensorflow/tensorflow:1.12.0-gpu-py3\n");
  EXPECT_THAT(note_texts(needs()), Contains(HasSubstr("Dockerfile:2: builds on tensorflow/tensorflow:1.12.0-gpu-py3")));
}

TEST_F(RequirementsFile, entries_for_other_systems_are_left_out) {
  write("requirements.txt", "torch\npywin32 ; sys_platform == 'win32'\ntriton ; python_version < '3.12'\n");
  const Requirements needs = this->needs();
  EXPECT_THAT(lines(needs.packages), ElementsAre("1: torch", "3: triton ; python_version < '3.12'"));
  EXPECT_THAT(note_texts(needs), Contains(HasSubstr("for other systems only, and left out: pywin32")));
}

TEST_F(RequirementsFile, a_lone_list_of_requirements_is_taken_with_a_note) {
  write("notes.txt", "Some prose about this project.\n");
  write("readme-pins.txt", "python>=3.6\ntorch>=1.0\ntorchvision\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.declared_by, DeclaredBy::requirement_list);
  EXPECT_THAT(lines(needs.packages), ElementsAre("2: torch>=1.0", "3: torchvision"));
  EXPECT_EQ(needs.python->value, ">=3.6");
  EXPECT_EQ(needs.python->origin.line, 1);
  EXPECT_THAT(note_texts(needs), Contains(HasSubstr("every line is a requirement")));
}

TEST_F(RequirementsFile, a_list_of_labels_is_no_list_of_requirements) {
  write("classes.txt", "person\nbicycle\ncar\n");
  EXPECT_EQ(needs().declared_by, DeclaredBy::nothing);
}

TEST(JoinedLines, a_comment_ends_a_continued_line) {
  const auto joined = joined_lines("a \\\n# comment\nb#c\n");
  ASSERT_EQ(joined.size(), 2U);
  EXPECT_EQ(joined[0].text, "a");
  EXPECT_EQ(joined[1].text, "b#c");
  EXPECT_EQ(joined[1].line, 3);
}

TEST_F(RequirementsFile, what_a_terminal_would_obey_is_not_repeated) {
  write("requirements.txt",
        "\x1b[31mred==1\n\xC2\x9B"
        "31mred==1\n");
  EXPECT_THAT(refusal().message, HasSubstr("`?[31mred==1`"));
  EXPECT_THAT(refusal().context, Contains(HasSubstr("`?31mred==1`")));
}

TEST_F(RequirementsFile, a_line_of_a_megabyte_is_shown_in_part) {
  write("requirements.txt", std::string(1 << 20, 'a') + "\n");
  EXPECT_THAT(refusal().message, HasSubstr("its name has 1048576 characters"));
  EXPECT_LT(refusal().message.size(), 1000U);
}

TEST_F(RequirementsFile, of_many_bad_lines_the_first_ones_are_told) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "!bad\n";
  write("requirements.txt", text);
  EXPECT_THAT(refusal().context, ElementsAre(_, _, _, _, _, _, _, "and 992 more lines alike"));
}

TEST_F(RequirementsFile, a_web_page_and_a_merge_conflict_are_called_so) {
  write("requirements.txt", "<!DOCTYPE html>\n<html><body>Not found</body></html>\n");
  EXPECT_EQ(refusal().message, "requirements.txt is a web page, not a list of requirements");
  write("requirements.txt", "six\n<<<<<<< HEAD\ntorch\n=======\njax\n>>>>>>> other\n");
  EXPECT_EQ(refusal().message, "requirements.txt:2: two versions of the file stand here, left by a merge");
}

}  // namespace
}  // namespace startrail::project
