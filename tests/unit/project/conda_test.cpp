#include <gmock/gmock.h>

#include "project/conda_spec.hpp"
#include "project/project_folder.hpp"

namespace startrail::project {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class Conda : public ProjectFolder {};

TEST(CondaSpec, every_way_to_write_a_version_has_its_pep_440_form) {
  const auto specifier = [](std::string_view text) { return parse_conda_spec(text).value().specifier; };
  EXPECT_EQ(specifier("numpy"), "");
  EXPECT_EQ(specifier("numpy=1.19.2"), "==1.19.2.*");
  EXPECT_EQ(specifier("numpy=1.20.2=py37h2d18471_0"), "==1.20.2");
  EXPECT_EQ(specifier("pytorch=2.0=*cuda*"), "==2.0.*");
  EXPECT_EQ(specifier("numpy==1.19.2"), "==1.19.2");
  EXPECT_EQ(specifier("pytorch=2.*"), "==2.*");
  EXPECT_EQ(specifier("pip>=23"), ">=23");
  EXPECT_EQ(specifier("numpy >=1.20,<2"), ">=1.20,<2");
  EXPECT_EQ(specifier("numpy 1.20.*"), "==1.20.*");
  EXPECT_EQ(specifier("numpy 1.20.2 py37_0"), "==1.20.2");
  EXPECT_EQ(specifier("conda-forge::numpy=>1.2"), ">=1.2");
  EXPECT_EQ(specifier("numpy[version='>=1.2,<3',channel=x]"), ">=1.2,<3");
  EXPECT_EQ(specifier("tensorflow=2.1.0rc1"), "==2.1.0rc1");
  EXPECT_EQ(parse_conda_spec("numpy 1.7|1.8").value().dropped, "1.7|1.8");
  EXPECT_FALSE(parse_conda_spec("=1.2"));
}

TEST_F(Conda, names_pins_and_cuda_become_what_wheels_are_called) {
  write("environment.yml",
        "name: x\n"
        "channels: [pytorch]\n"
        "dependencies:\n"
        "  - python=3.8.5\n"
        "  - pip=20.3\n"
        "  - cudatoolkit=11.3\n"
        "  - pytorch=1.11.0\n"
        "  - matplotlib-base=3.3.2\n"
        "  - matplotlib=3.3.2\n"
        "  - opencv\n"
        "  - ffmpeg\n"
        "  - pip:\n"
        "    - transformers==4.19.2\n"
        "    - -e git+https://example.org/clip.git@main#egg=clip\n"
        "    - --extra-index-url https://extra.example/simple\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.declared_by, DeclaredBy::conda);
  EXPECT_EQ(needs.python->value, "==3.8.*");
  EXPECT_EQ(needs.python->origin.line, 4);
  EXPECT_EQ(needs.cuda->value, "11.3");
  EXPECT_EQ(needs.cuda->origin.line, 6);
  EXPECT_THAT(lines(needs.packages),
              ElementsAre("7: torch==1.11.0.*", "8: matplotlib==3.3.2.*", "10: opencv-python",
                          "13: transformers==4.19.2", "14: clip @ git+https://example.org/clip.git@main"));
  EXPECT_EQ(needs.indexes.extra_index_urls.at(0).origin.line, 15);
  EXPECT_EQ(needs.system_packages.at(0).value, "ffmpeg");
}

TEST_F(Conda, a_full_export_keeps_python_packages_and_sums_up_the_libraries) {
  write("environment.yaml",
        "dependencies:\n"
        "  - _libgcc_mutex=0.1=main\n"
        "  - libgcc-ng=9.3.0=h5101ec6_17\n"
        "  - ffmpeg=4.3=hf484d3e_0\n"
        "  - openssl=1.1.1k=h27cfd23_0\n"
        "  - numpy=1.20.2=py37h2d18471_0\n"
        "  - pytorch=1.9.0=py3.7_cuda11.1_cudnn8.0.5_0\n");
  const Requirements needs = this->needs();
  EXPECT_THAT(lines(needs.packages), ElementsAre("6: numpy==1.20.2", "7: torch==1.9.0"));
  EXPECT_EQ(needs.cuda->value, "11.1");
  EXPECT_EQ(needs.cuda->origin.line, 7);
  EXPECT_TRUE(needs.system_packages.empty());
  EXPECT_THAT(note_texts(needs),
              ElementsAre(HasSubstr("4 conda system libraries are left out (_libgcc_mutex, libgcc-ng, ")));
}

TEST_F(Conda, an_export_of_another_system_is_told) {
  write("environment.yml", "dependencies:\n  - libcxx=10.0.0\n  - numpy\n");
  EXPECT_THAT(note_texts(needs()), Contains(HasSubstr("exported on macOS")));
  write("environment.yml", "dependencies:\n  - vs2015_runtime=14\n  - numpy\n");
  EXPECT_THAT(note_texts(needs()), Contains(HasSubstr("exported on Windows")));
}

TEST_F(Conda, the_pip_list_has_the_last_word) {
  write("environment.yml", "dependencies:\n  - numpy=1.19\n  - pip:\n    - numpy==1.21.0\n");
  const Requirements needs = this->needs();
  EXPECT_THAT(lines(needs.packages), ElementsAre("4: numpy==1.21.0"));
  EXPECT_THAT(note_texts(needs), Contains(HasSubstr("numpy==1.21.0 replaces numpy=1.19 of line 2")));
}

TEST_F(Conda, of_several_environments_the_one_for_gpus_is_read) {
  write("conda-cpu.yml", "dependencies:\n  - pytorch\n  - cpuonly\n");
  write("conda-gpu.yml", "dependencies:\n  - python==3.7\n  - pytorch\n  - cudatoolkit==10.1.243\n");
  const Requirements needs = this->needs();
  EXPECT_EQ(needs.cuda->value, "10.1");
  EXPECT_EQ(needs.python->value, "==3.7.*");
  EXPECT_THAT(note_texts(needs), Contains("conda-gpu.yml: conda-cpu.yml is not read; `-r FILE` chooses"));
}

TEST_F(Conda, a_bad_line_of_the_pip_list_names_its_own_line) {
  write("environment.yml", "dependencies:\n  - python=3.8\n  - pip:\n    - tqdm\n    - torch~=1.0+cu9\n");
  EXPECT_THAT(refusal().message, HasSubstr("environment.yml:5: `torch~=1.0+cu9`"));
}

TEST_F(Conda, broken_yaml_names_file_and_line) {
  write("environment.yml", "dependencies:\n  - a\n b: [\n");
  const Error error = refusal();
  EXPECT_EQ(error.code, ErrorCode::corrupt);
  EXPECT_THAT(error.message, HasSubstr("environment.yml:"));
}

TEST_F(Conda, a_yaml_file_without_dependencies_is_something_else) {
  write("environment.yml", "services: {}\n");
  EXPECT_EQ(needs().declared_by, DeclaredBy::nothing);
}

TEST_F(Conda, requirements_win_and_the_difference_is_told) {
  write("requirements.txt", "torch>=2.0\nrich\n");
  write("environment.yaml", "dependencies:\n  - python=3.10\n  - pytorch=2.*\n  - rich\n");
  const Requirements needs = this->needs();
  EXPECT_THAT(lines(needs.packages), ElementsAre("1: torch>=2.0", "2: rich"));
  EXPECT_FALSE(needs.python);
  EXPECT_THAT(note_texts(needs),
              Contains(HasSubstr("differently (Python ==3.10.* and torch ==2.*); requirements.txt is taken")));
  for (const SourceFile& source : needs.sources) EXPECT_THAT(source.file, Not("environment.yaml"));
}

}  // namespace
}  // namespace startrail::project
