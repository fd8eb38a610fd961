#include "lock/torch_build.hpp"

#include <gtest/gtest.h>

#include "base/files.hpp"
#include "lock/build_help.hpp"
#include "lock/torch_layer.hpp"
#include "lock/torch_source.hpp"

namespace startrail::lock {
namespace {

Lock lock_with_torch() {
  Lock lock{.python = "3.11", .suite = "bookworm", .framework = "torch", .framework_version = "2.6.0", .cuda = "12.4"};
  lock.architectures = {"5.0", "8.0", "9.0"};
  lock.packages = {{.name = "torch", .version = "2.6.0", .artifact = {.sha256 = std::string(64, 'a')}}};
  lock.built_with_torch = {"twice"};
  lock.build_architectures = {"8.6"};
  return lock;
}

machine::Machine machine_with(std::vector<std::pair<int, int>> capabilities) {
  machine::Machine machine;
  for (const auto& [major, minor] : capabilities) {
    machine::Gpu gpu;
    gpu.name = "a GPU";
    gpu.compute_major = major;
    gpu.compute_minor = minor;
    machine.gpus.push_back(gpu);
  }
  return machine;
}

std::string toolkit_of(std::string_view cuda) {
  const auto* toolkit = toolkit_for(cuda);
  return toolkit == nullptr ? "" : toolkit->cuda;
}

TEST(TorchBuild, every_toolkit_says_what_it_is_made_of_and_what_it_accepts) {
  ASSERT_FALSE(toolkits().empty());
  for (const auto& toolkit : toolkits()) {
    EXPECT_GE(toolkit.newest_gcc, 10) << toolkit.cuda;
    EXPECT_FALSE(toolkit.wheels.empty()) << toolkit.cuda;
    EXPECT_EQ(toolkit.debian_suite.empty(), toolkit.debian_package.empty()) << toolkit.cuda;
    EXPECT_FALSE(toolkit.oldest.empty() || toolkit.newest.empty() || toolkit.glibc.empty()) << toolkit.cuda;
    for (const auto& wheel : toolkit.wheels) EXPECT_NE(wheel.find("=="), std::string::npos) << wheel;
  }
}

TEST(TorchBuild, what_the_project_tells_to_compile_for_comes_before_the_machines_gpus) {
  EXPECT_EQ(build_architectures(machine_with({{8, 6}}), lock_with_torch(), {"9.0", "8.0"}),
            (std::vector<std::string>{"8.0", "9.0"}));
  EXPECT_EQ(build_architectures(machine_with({{8, 6}}), lock_with_torch()), (std::vector<std::string>{"8.6"}));
}

TEST(TorchBuild, packages_that_import_torch_are_known_by_name) {
  ASSERT_NE(torch_package("flash-attn"), nullptr);
  EXPECT_EQ(torch_package("flash-attn")->requirements, (std::vector<std::string>{"torch", "einops"}));
  EXPECT_EQ(torch_package("requests"), nullptr);
}

TEST(TorchBuild, the_compiler_is_of_the_same_cuda_else_of_the_same_major_version) {
  EXPECT_EQ(toolkit_of("13.2"), "13.2");
  EXPECT_EQ(toolkit_of("13.1"), "13.0");
  EXPECT_EQ(toolkit_of("12.8"), "12.4");
  EXPECT_EQ(toolkit_of("12.1"), "12.4");
  EXPECT_EQ(toolkit_of("11.7"), "11.8");
  EXPECT_EQ(toolkit_of("10.2"), "");
}

TEST(TorchBuild, the_host_compiler_is_the_newest_of_the_suite_that_this_cuda_accepts) {
  EXPECT_EQ(host_compiler(*toolkit_for("11.8"), "bookworm"), 11);
  EXPECT_EQ(host_compiler(*toolkit_for("11.8"), "bullseye"), 10);
  EXPECT_EQ(host_compiler(*toolkit_for("11.8"), "trixie"), 0);
  EXPECT_EQ(host_compiler(*toolkit_for("12.4"), "bookworm"), 12);
  EXPECT_EQ(host_compiler(*toolkit_for("12.4"), "trixie"), 13);
  EXPECT_EQ(host_compiler(*toolkit_for("13.0"), "trixie"), 14);
}

TEST(TorchBuild, a_compiler_that_is_not_the_suites_own_is_a_package_of_the_build) {
  Lock lock = lock_with_torch();
  EXPECT_TRUE(torch_build(lock).value().packages.empty());
  lock.suite = "trixie";
  EXPECT_EQ(torch_build(lock).value().packages, std::vector<std::string>{"g++-13"});
}

TEST(TorchBuild, another_list_of_architectures_another_torch_or_another_python_is_another_wheel) {
  const std::string first = torch_build(lock_with_torch()).value().identity;
  EXPECT_EQ(torch_build(lock_with_torch()).value().identity, first);
  Lock other = lock_with_torch();
  other.build_architectures = {"9.0"};
  EXPECT_NE(torch_build(other).value().identity, first);
  other = lock_with_torch();
  other.packages.front().artifact.sha256 = std::string(64, 'b');
  EXPECT_NE(torch_build(other).value().identity, first);
  other = lock_with_torch();
  other.python = "3.13";
  EXPECT_NE(torch_build(other).value().identity, first);
}

TEST(TorchBuild, gpus_newer_than_the_compiler_get_intermediate_code) {
  Lock lock = lock_with_torch();
  lock.build_architectures = {"8.0", "12.0"};
  EXPECT_EQ(torch_build(lock).value().architectures, (std::vector<std::string>{"8.0", "9.0+PTX"}));
  lock.cuda = "13.0";
  EXPECT_EQ(torch_build(lock).value().architectures, (std::vector<std::string>{"8.0", "12.0"}));
}

TEST(TorchBuild, without_a_gpu_here_the_code_is_for_all_that_torch_has_kernels_for_and_newer_ones) {
  Lock lock = lock_with_torch();
  lock.build_architectures = build_architectures(machine_with({}), lock);
  EXPECT_EQ(torch_build(lock).value().architectures, (std::vector<std::string>{"5.0", "8.0", "9.0+PTX"}));
}

TEST(TorchBuild, with_gpus_here_the_code_is_for_those) {
  const auto found = build_architectures(machine_with({{9, 0}, {8, 6}, {9, 0}}), lock_with_torch());
  EXPECT_EQ(found, (std::vector<std::string>{"8.6", "9.0"}));
}

TEST(TorchBuild, code_for_other_gpus_than_those_here_is_told) {
  const Lock lock = lock_with_torch();
  EXPECT_FALSE(compiled_for_others(lock, machine_with({})));
  EXPECT_FALSE(compiled_for_others(lock, machine_with({{8, 9}})));
  const auto told = compiled_for_others(lock, machine_with({{9, 0}}));
  ASSERT_TRUE(told);
  EXPECT_NE(told->find("twice was compiled for GPUs of compute capability 8.6"), std::string::npos) << *told;
}

TEST(TorchBuild, a_project_without_torch_is_refused_with_the_way_out) {
  Lock lock = lock_with_torch();
  lock.packages.clear();
  const auto build = torch_build(lock);
  ASSERT_FALSE(build);
  EXPECT_NE(build.error().message.find("twice is compiled against torch"), std::string::npos);
  EXPECT_FALSE(build.error().hints.empty());
}

TEST(TorchBuild, a_cuda_whose_compiler_is_not_to_be_had_is_refused) {
  Lock lock = lock_with_torch();
  lock.cuda = "10.2";
  EXPECT_NE(torch_build(lock).error().message.find("no compiler of CUDA 10.2"), std::string::npos);
}

TEST(TorchBuild, a_cpu_build_needs_no_cuda) {
  Lock lock = lock_with_torch();
  lock.build = project::Build::cpu;
  EXPECT_EQ(torch_build(lock).value().toolkit, nullptr);
}

TEST(TorchBuild, a_compiler_gets_four_gigabytes) {
  EXPECT_EQ(compile_jobs(Bytes{24ULL << 30U}, 16), 6);
  EXPECT_EQ(compile_jobs(Bytes{24ULL << 30U}, 2), 2);
  EXPECT_EQ(compile_jobs(Bytes{1ULL << 30U}, 8), 1);
}

TEST(TorchBuild, a_lock_keeps_what_is_compiled_and_for_which_gpus) {
  const fs::path folder = base::make_temporary_directory(fs::temp_directory_path(), "torch-build").value();
  Lock lock = lock_with_torch();
  lock.packages.front().artifact.filename = "torch-2.6.0-cp311-cp311-linux_x86_64.whl";
  ASSERT_TRUE(write_lock(lock, folder / k_lock_file_name));
  const auto read = read_lock(folder / k_lock_file_name);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->built_with_torch, lock.built_with_torch);
  EXPECT_EQ(read->build_architectures, lock.build_architectures);
  EXPECT_EQ(digest(*read), digest(lock));
  lock.build_architectures = {"9.0"};
  EXPECT_NE(digest(*read), digest(lock));
  (void)base::remove_tree(folder);
}

TEST(TorchBuild, a_build_that_misses_torch_is_not_given_a_torch_of_its_own) {
  BuildHelp help;
  std::vector<std::string> notes;
  const UvFailure failure{.kind = FailureKind::build_failed, .package = "twice", .missing_module = "torch"};
  EXPECT_TRUE(learn(help, failure, notes));
  EXPECT_TRUE(help.requirements.empty());
  EXPECT_EQ(help.metadata.at("twice"), std::vector<std::string>{"torch"});
  EXPECT_FALSE(learn(help, failure, notes));
}

TEST(TorchBuild, what_is_not_in_an_index_has_a_version_for_uv) {
  const BuildHelp help{.constraints = {}, .requirements = {}, .metadata = {{"here", {"torch"}}, {"there", {}}}};
  const std::string text = build_settings(help, {"here"});
  EXPECT_NE(text.find("name = \"here\"\nversion = \"0\"\nrequires-dist = [\"torch\"]"), std::string::npos) << text;
  EXPECT_NE(text.find("name = \"there\"\nrequires-dist = []"), std::string::npos) << text;
}

class TorchSource : public testing::Test {
 protected:
  void SetUp() override { m_folder = base::make_temporary_directory(fs::temp_directory_path(), "source").value(); }
  void TearDown() override { (void)base::remove_tree(m_folder); }
  void write(const char* file, std::string_view text) { ASSERT_TRUE(base::write_file_atomic(m_folder / file, text)); }
  fs::path m_folder;
};

TEST_F(TorchSource, a_setup_that_imports_torch_is_seen) {
  write("setup.py", "import os\nif True:\n    from torch.utils.cpp_extension import CUDAExtension\n");
  EXPECT_TRUE(imports_torch(m_folder));
}

TEST_F(TorchSource, a_setup_that_imports_something_like_torch_is_not) {
  write("setup.py", "import torchlike\n# import torch\nfrom torch_geometric import x\n");
  EXPECT_FALSE(imports_torch(m_folder));
}

TEST_F(TorchSource, the_name_is_a_literal_of_setup_py) {
  write("setup.py", "from setuptools import setup\nsetup(\n    name='My_Ext',\n    version='1')\n");
  EXPECT_EQ(package_name(m_folder), "my-ext");
}

TEST_F(TorchSource, pyproject_names_before_setup_py) {
  write("setup.py", "setup(name='other')\n");
  write("pyproject.toml", "[project]\nname = \"mine\"\nversion = \"1\"\n");
  EXPECT_EQ(package_name(m_folder), "mine");
}

TEST_F(TorchSource, a_name_that_is_computed_is_none) {
  write("setup.py", "setup(name=NAME + '(x)')\n");
  EXPECT_EQ(package_name(m_folder), "");
}

TEST(CompilerError, the_first_of_nvcc_is_told_with_file_and_line) {
  EXPECT_EQ(first_compiler_error("[1/2] nvcc\n/build/folder/src/k.cu(12): error: identifier \"y\" is undefined\n"
                                 "/build/folder/src/k.cu(14): error: more\n"),
            "src/k.cu, line 12: identifier \"y\" is undefined");
}

TEST(CompilerError, the_first_of_gcc_is_told_with_file_and_line) {
  EXPECT_EQ(
      first_compiler_error("x.cpp: In function\n/build/tmp/source/x-1.0/x.cpp:7:3: error: 'a' was not declared\n"),
      "x-1.0/x.cpp, line 7: 'a' was not declared");
  EXPECT_EQ(first_compiler_error("a.h:1:10: fatal error: b.h: No such file or directory\n"),
            "a.h, line 1: b.h: No such file or directory");
}

TEST(CompilerError, words_about_errors_that_name_no_place_are_none) {
  EXPECT_EQ(first_compiler_error("error: command 'nvcc' failed\nRuntimeError: Error compiling objects\n"), "");
}

}  // namespace
}  // namespace startrail::lock
