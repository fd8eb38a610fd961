#include <gmock/gmock.h>

#include <chrono>

#include "base/json.hpp"
#include "situation.hpp"

namespace startrail::catalog {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::string shown(const Result<Choice>& choice) {
  return choice ? "a choice" : base::to_text(choice.error());
}

// ---- what is chosen ----

struct Chosen {
  const char* name;
  std::vector<std::string> packages;
  std::string python;
  std::string driver;
  std::vector<std::string> gpus;
  std::string series;                // of the combination; "" for none
  std::vector<std::string> pythons;  // in order
  std::vector<std::string> bounds;   // on torch, or on the first package's framework
};

void PrintTo(const Chosen& item, std::ostream* out) {
  *out << item.name;
}

class Choosing : public testing::TestWithParam<Chosen> {};

TEST_P(Choosing, finds_the_newest_that_fits_both_sides) {
  const Chosen& expected = GetParam();
  const auto choice =
      choose(project_with(expected.packages, expected.python), machine_with(expected.driver, expected.gpus), {});
  ASSERT_TRUE(choice) << shown(choice);
  EXPECT_EQ(choice->combination ? choice->combination->series : "", expected.series);
  EXPECT_EQ(minors_of(*choice), expected.pythons);
  const std::string framework = choice->combination ? choice->combination->framework : "torch";
  EXPECT_EQ(lines_of(choice->bounds, framework), expected.bounds);
}

const std::vector<std::string> k_all{"3.11", "3.13", "3.9"};

INSTANTIATE_TEST_SUITE_P(
    Table, Choosing,
    testing::Values(
        // no driver: the same everywhere
        Chosen{"any_torch", {"torch"}, "", "", {}, "2.15", k_all, {"torch<2.16"}},
        Chosen{"nothing_declared", {"numpy"}, "", "", {}, "", k_all, {"torch<2.16"}},
        Chosen{"a_gpu_without_a_driver_bounds_nothing", {"torch"}, "", "", {"6.1"}, "2.15", k_all, {"torch<2.16"}},
        // drivers
        Chosen{"driver_470", {"torch"}, "", "470.82.01", {"7.0"}, "2.0", {"3.11", "3.9"}, {"torch<2.1"}},
        Chosen{"driver_525_at_the_floor",
               {"torch"},
               "",
               "525.60.13",
               {"8.0"},
               "2.10",
               k_all,
               {"torch<2.11", "torch>=1.13"}},
        Chosen{"driver_525_below_the_floor",
               {"torch"},
               "",
               "525.53",
               {"8.0"},
               "2.0",
               {"3.11", "3.9"},
               {"torch<2.1", "torch>=1.13"}},
        Chosen{"driver_535", {"torch"}, "", "535.183.01", {"9.0"}, "2.10", k_all, {"torch<2.11", "torch>=2.1"}},
        Chosen{"driver_550", {"torch>=2.0"}, "", "550.54.14", {"8.9"}, "2.10", k_all, {"torch<2.11", "torch>=1.13"}},
        Chosen{"driver_580", {"torch"}, "", "580.65.06", {"9.0"}, "2.15", k_all, {"torch<2.16", "torch>=2.1"}},
        Chosen{"driver_580_too_early", {"torch"}, "", "580.64", {"9.0"}, "2.10", k_all, {"torch<2.11", "torch>=2.1"}},
        Chosen{"a_driver_whose_gpus_are_unknown", {"torch"}, "", "535.183.01", {}, "2.10", k_all, {"torch<2.11"}},
        // architectures
        Chosen{"sm_37", {"torch"}, "", "470.256.02", {"3.7"}, "2.0", {"3.11", "3.9"}, {"torch<2.1"}},
        Chosen{"sm_61", {"torch"}, "", "580.65.06", {"6.1"}, "2.7", k_all, {"torch<2.8"}},
        Chosen{"sm_70", {"torch"}, "", "580.65.06", {"7.0"}, "2.10", k_all, {"torch<2.11"}},
        Chosen{"sm_80", {"torch"}, "", "580.65.06", {"8.0"}, "2.15", k_all, {"torch<2.16", "torch>=1.13"}},
        Chosen{"sm_120", {"torch"}, "", "580.65.06", {"12.0"}, "2.15", k_all, {"torch<2.16", "torch>=2.8"}},
        Chosen{"sm_103_runs_kernels_of_sm_100",
               {"torch==2.9.1"},
               "",
               "580.65.06",
               {"10.3"},
               "2.9",
               {"3.11", "3.13"},
               {"torch<2.16", "torch>=2.8"}},
        Chosen{"sm_70_and_sm_90_together",
               {"torch"},
               "",
               "580.65.06",
               {"7.0", "9.0"},
               "2.10",
               k_all,
               {"torch<2.11", "torch>=2.1"}},
        Chosen{"transitive_torch_on_an_old_gpu", {"accelerate"}, "", "535.183.01", {"6.1"}, "", k_all, {"torch<2.8"}},
        // pins and Pythons
        Chosen{"a_range", {"torch>=1.13,<2.3"}, "", "", {}, "2.2", {"3.11", "3.9"}, {"torch<2.16"}},
        Chosen{
            "an_exact_pin", {"torch==2.6.0"}, "", "535.183.01", {"8.0"}, "2.6", k_all, {"torch<2.11", "torch>=1.13"}},
        Chosen{"old_torch_needs_python_3.9", {"torch==1.11.0"}, "", "", {}, "1.11", {"3.9"}, {"torch<2.16"}},
        Chosen{"torchvision_alone_means_torch", {"torchvision==0.12.0"}, "", "", {}, "1.11", {"3.9"}, {"torch<2.16"}},
        Chosen{"two_torches_share_a_torchvision",
               {"torch", "torchvision~=0.29.0"},
               "",
               "",
               {},
               "2.15",
               {"3.11", "3.13"},
               {"torch<2.16"}},
        Chosen{"python_3.8_takes_the_nearest",
               {"torch"},
               "==3.8.5",
               "",
               {},
               "2.8",
               {"3.9", "3.11", "3.13"},
               {"torch<2.16"}},
        Chosen{"python_3.10_takes_the_newer_neighbour",
               {"torch==2.4.0"},
               "==3.10.*",
               "",
               {},
               "2.4",
               {"3.11", "3.9"},
               {"torch<2.16"}},
        Chosen{"python_3.10_without_wheels_for_the_newer",
               {"torch==1.12.1"},
               "==3.10.*",
               "",
               {},
               "1.12",
               {"3.9"},
               {"torch<2.16"}},
        Chosen{"python_3.12", {"torch>=2.6"}, "==3.12.*", "", {}, "2.15", {"3.13", "3.11", "3.9"}, {"torch<2.16"}},
        Chosen{"python_range_with_a_middle", {"torch"}, ">=3.8,<3.12", "", {}, "2.15", {"3.11", "3.9"}, {"torch<2.16"}},
        Chosen{"only_the_newest_python", {"torch"}, ">=3.12", "", {}, "2.15", {"3.13"}, {"torch<2.16"}},
        Chosen{"a_pin_for_another_system_does_not_count",
               {"torch==1.4.0 ; sys_platform == 'darwin'", "torch"},
               "",
               "",
               {},
               "2.15",
               k_all,
               {"torch<2.16"}},
        // tensorflow and jax
        Chosen{"tensorflow", {"tensorflow>=1.11.0"}, "", "535.183.01", {"8.0"}, "2.21", k_all, {"tensorflow<2.22"}},
        Chosen{"tensorflow_on_driver_470",
               {"tensorflow"},
               "",
               "470.82.01",
               {"7.5"},
               "2.14",
               {"3.11", "3.9"},
               {"tensorflow<2.15"}},
        Chosen{"tensorflow_on_a_new_gpu_by_ptx",
               {"tensorflow"},
               "",
               "580.65.06",
               {"12.0"},
               "2.21",
               k_all,
               {"tensorflow<2.22", "tensorflow>=2.18"}},
        Chosen{"old_tensorflow_gpu", {"tensorflow-gpu==2.8.0"}, "", "", {}, "2.8", {"3.9"}, {"tensorflow<2.22"}},
        Chosen{"jax", {"jax"}, "", "", {}, "0.12", {"3.13", "3.11", "3.9"}, {"jax<0.13"}},
        Chosen{"torch_comes_first", {"jax", "tensorflow", "torch"}, "", "", {}, "2.15", k_all, {"torch<2.16"}}),
    [](const auto& item) {
      std::string name = item.param.name;
      std::ranges::replace(name, '.', '_');
      return name;
    });

// ---- what is refused ----

struct Refused {
  const char* name;
  std::vector<std::string> packages;
  std::string python;
  std::string driver;
  std::vector<std::string> gpus;
  std::string message;
  std::string context;
  std::vector<std::string> hints;  // each must be part of some hint
};

void PrintTo(const Refused& item, std::ostream* out) {
  *out << item.name;
}

class Refusing : public testing::TestWithParam<Refused> {};

TEST_P(Refusing, names_both_sides_and_the_ways_out) {
  const Refused& expected = GetParam();
  const auto choice =
      choose(project_with(expected.packages, expected.python), machine_with(expected.driver, expected.gpus), {});
  ASSERT_FALSE(choice);
  const Error& error = choice.error();
  EXPECT_EQ(error.code, ErrorCode::refused);
  EXPECT_EQ(error.message, expected.message);
  EXPECT_THAT(error.context, Contains(expected.context));
  for (const auto& hint : expected.hints) EXPECT_THAT(error.hints, Contains(HasSubstr(hint)));
}

INSTANTIATE_TEST_SUITE_P(
    Table, Refusing,
    testing::Values(
        Refused{"driver_too_old",
                {"numpy", "torch==2.13.0"},
                "",
                "535.183.01",
                {"8.0"},
                "torch 2.13.0 needs NVIDIA driver 580 or newer; this machine has 535.183.01",
                "read from requirements.txt:2 and /proc/driver/nvidia/version",
                {"`trail run --framework torch==2.10.0` is the newest that works here, or upgrade the driver",
                 "`torch==2.13.0+cu126` is the same release built for CUDA 12.6", "--cpu"}},
        Refused{"driver_of_the_right_branch_but_too_early",
                {"torch==2.4.0"},
                "",
                "525.53",
                {"8.0"},
                "torch 2.4.0 needs NVIDIA driver 525.60.13 or newer; this machine has 525.53",
                "read from requirements.txt:1 and /proc/driver/nvidia/version",
                {"torch==2.0.1"}},
        Refused{"a_range_without_a_release_for_the_driver",
                {"torch>=2.11"},
                "",
                "550.54.14",
                {"8.0"},
                "torch>=2.11 needs NVIDIA driver 580 or newer; this machine has 550.54.14",
                "read from requirements.txt:1 and /proc/driver/nvidia/version",
                {"torch==2.10.0"}},
        Refused{"gpu_too_new",
                {"torch==1.11.0"},
                "",
                "535.183.01",
                {"8.0"},
                "torch 1.11.0 has no kernels for GPU 0, GPU-8.0 (sm_80); its CUDA 10.2 build covers sm_37 to sm_75",
                "read from requirements.txt:1 and NVML",
                {"torch==2.10.0", "`torch==1.11.0+cu113` is the same release built for CUDA 11.3"}},
        Refused{"gpu_too_old",
                {"torch==2.12.0"},
                "",
                "580.65.06",
                {"7.0"},
                "torch 2.12.0 has no kernels for GPU 0, GPU-7.0 (sm_70); its CUDA 13.0 build covers sm_75 to sm_120",
                "read from requirements.txt:1 and NVML",
                {"torch==2.10.0", "torch==2.12.0+cu126"}},
        Refused{"blackwell_with_an_old_release",
                {"torch==2.6.0"},
                "",
                "580.65.06",
                {"12.0"},
                "torch 2.6.0 has no kernels for GPU 0, GPU-12.0 (sm_120); its CUDA 12.4 build covers sm_50 to sm_90",
                "read from requirements.txt:1 and NVML",
                {"torch==2.15.0"}},
        Refused{"one_of_two_gpus",
                {"torch>=2.8"},
                "",
                "580.65.06",
                {"8.0", "6.1"},
                "torch>=2.8 has no kernels for GPU 1, GPU-6.1 (sm_61); its CUDA 13.2 build covers sm_75 to sm_120",
                "read from requirements.txt:1 and NVML",
                {"`CUDA_VISIBLE_DEVICES=0` before the command"}},
        Refused{"a_pinned_build_for_the_wrong_gpu",
                {"torch==1.12.1+cu113"},
                "",
                "580.65.06",
                {"9.0"},
                "torch 1.12.1+cu113 has no kernels for GPU 0, GPU-9.0 (sm_90); its CUDA 11.3 build covers sm_37 to "
                "sm_86",
                "read from requirements.txt:1 and NVML",
                {"torch==2.15.0"}},
        Refused{"torch_1.4",
                {"torch==1.4.0"},
                "",
                "",
                {},
                "torch 1.4.0 has wheels for Python 2.7 and 3.5 to 3.8 only; Python 3.9, 3.11 and 3.13 are on offer",
                "read from requirements.txt:1",
                {"torch==1.7.1` is the nearest release", "an OCI image"}},
        Refused{"tensorflow_1.15",
                {"tensorflow==1.15.2"},
                "",
                "",
                {},
                "tensorflow 1.15.2 has wheels for Python 2.7 and 3.5 to 3.7 only; Python 3.9, 3.11 and 3.13 are on "
                "offer",
                "read from requirements.txt:1",
                {"tensorflow==2.5.3` is the nearest release"}},
        Refused{"a_release_candidate_of_an_old_tensorflow",
                {"tensorflow-gpu==2.1.0rc1"},
                "",
                "",
                {},
                "tensorflow-gpu 2.1.0rc1 has wheels for Python 2.7 and 3.5 to 3.7 only; Python 3.9, 3.11 and 3.13 are "
                "on offer",
                "read from requirements.txt:1",
                {"tensorflow==2.5.3"}},
        Refused{"tensorflow_gpu_stub",
                {"tensorflow-gpu==2.12.0"},
                "",
                "",
                {},
                "tensorflow-gpu ended with 2.11; 2.12.0 is a stub that can't be installed",
                "read from requirements.txt:1",
                {"write `tensorflow==2.12.0` instead"}},
        Refused{"the_projects_own_python_is_too_new",
                {"torch==2.0.1"},
                ">=3.13",
                "",
                {},
                "torch 2.0.1 has wheels for Python 3.8 to 3.11, but the project asks for Python >=3.13",
                "read from requirements.txt:1 and environment.yml:4",
                {"`trail lock --python 3.11`", "torch==2.5.1` is the nearest release"}},
        Refused{"python_2",
                {"torch"},
                "<3",
                "",
                {},
                "the project asks for Python <3, which no base has",
                "read from environment.yml:4",
                {"--python 3.11"}},
        Refused{"pins_that_contradict",
                {"torch>=2.0", "torch<1.13"},
                "",
                "",
                {},
                "no release of torch satisfies torch>=2.0 (requirements.txt:1) and torch<1.13 (requirements.txt:2)",
                "the catalog has torch 1.0 to 2.15",
                {"torch==2.15.0"}},
        Refused{"a_torchvision_of_another_torch",
                {"torch==1.11.0", "torchvision==0.15.1"},
                "",
                "",
                {},
                "torchvision==0.15.1 (requirements.txt:2) goes with torch 2.0, not with torch==1.11.0 "
                "(requirements.txt:1)",
                "each release of torchvision is built for one release of torch",
                {"write `torchvision==0.12.*` (requirements.txt:2), which goes with torch 1.11",
                 "or `torch==2.0.1` (requirements.txt:1)"}},
        Refused{"older_than_the_catalog",
                {"torch==0.4.1"},
                "",
                "",
                {},
                "no release of torch satisfies torch==0.4.1 (requirements.txt:1)",
                "the catalog has torch 1.0 to 2.15",
                {"torch==2.15.0"}},
        Refused{"jax_on_driver_470",
                {"jax"},
                "",
                "470.82.01",
                {"8.0"},
                "jax needs NVIDIA driver 525 or newer; this machine has 470.82.01",
                "read from requirements.txt:1 and /proc/driver/nvidia/version",
                {"upgrade the driver to 525", "--cpu"}},
        Refused{"frameworks_without_a_common_python",
                {"torch==1.11.0", "jax==0.12.0"},
                "",
                "",
                {},
                "no Python on offer has wheels for all frameworks: torch 1.11.0 for 3.9; jax 0.12.0 for 3.13",
                "read from requirements.txt:1 and requirements.txt:2",
                {"loosen one of these pins"}}),
    [](const auto& item) {
      std::string name = item.param.name;
      std::ranges::replace(name, '.', '_');
      return name;
    });

// ---- the rest of a choice ----

TEST(Choose, each_bound_says_why) {
  const auto choice = choose(project_with({}), machine_with("535.183.01", {"9.0"}), {});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->bounds.at(0).reason,
            "driver 535.183.01 is too old for the CUDA 13.0 of torch 2.11 and newer: that takes 580");
  EXPECT_EQ(choice->bounds.at(1).reason, "torch 2.0 and older have no kernels for GPU-9.0 (sm_90)");
  EXPECT_EQ(choice->bounds.at(2).reason, "the catalog knows tensorflow up to 2.21");
}

TEST(Choose, a_pinned_torchvision_is_told_to_change_along) {
  const auto choice =
      choose(project_with({"torch==1.11.0", "torchvision==0.12.0"}), machine_with("535.183.01", {"8.0"}), {});
  ASSERT_FALSE(choice);
  EXPECT_THAT(choice.error().hints, Contains("torchvision==0.12.0 (requirements.txt:2) must change along with torch"));
}

TEST(Choose, an_invisible_gpu_does_not_count) {
  auto machine = machine_with("580.65.06", {"8.0", "6.1"});
  machine.gpus[1].visible = false;
  const auto choice = choose(project_with({"torch"}), machine, {});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->combination->series, "2.15");
}

TEST(Choose, a_python_that_debian_lacks_is_remarked_on) {
  const auto choice = choose(project_with({"torch==2.4.0"}, "==3.8.5"), machine_with(""), {});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->pythons.at(0).suite, "bullseye");
  EXPECT_EQ(choice->pythons.at(0).remark,
            "the project asks for Python ==3.8.5 (environment.yml:4), which Debian has not: 3.9 is the nearest with "
            "wheels");
}

TEST(Choose, a_python_of_an_older_release_is_remarked_on) {
  const auto choice = choose(project_with({"torch"}), machine_with(""), {});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->pythons.at(0).remark, "");
  EXPECT_EQ(choice->pythons.at(2).remark, "torch 2.8 is the newest with wheels for Python 3.9");
}

TEST(Choose, the_python_flag_wins_over_the_project) {
  const auto choice = choose(project_with({"torch"}, "==3.8.*"), machine_with(""), {.python = "3.13"});
  ASSERT_TRUE(choice) << shown(choice);
  EXPECT_THAT(minors_of(*choice), ElementsAre("3.13"));
  EXPECT_EQ(choice->pythons.at(0).suite, "trixie");
}

TEST(Choose, a_python_flag_that_debian_can_not_serve_is_refused) {
  const auto choice = choose(project_with({"torch"}), machine_with(""), {.python = "3.10"});
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().code, ErrorCode::refused);
  EXPECT_EQ(choice.error().message, "Python 3.10 is not on offer");
  EXPECT_THAT(choice.error().context, Contains("Debian's suites bring 3.9, 3.11 and 3.13"));
}

TEST(Choose, the_framework_flag_replaces_the_projects_pins) {
  const auto choice = choose(project_with({"torch==2.13.0", "torchvision==0.28.0"}),
                             machine_with("535.183.01", {"8.0"}), {.framework = "torch==2.10.0"});
  ASSERT_TRUE(choice) << shown(choice);
  EXPECT_EQ(choice->combination->series, "2.10");
}

TEST(Choose, the_framework_flag_is_named_when_it_can_not_work) {
  const auto choice = choose(project_with({"numpy"}), machine_with("535.183.01"), {.framework = "torch==2.12.0"});
  ASSERT_FALSE(choice);
  EXPECT_THAT(choice.error().context, Contains("read from --framework and /proc/driver/nvidia/version"));
}

TEST(Choose, a_framework_flag_for_something_else_is_invalid) {
  const auto choice = choose(project_with({"numpy"}), machine_with(""), {.framework = "numpy==1.0"});
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().code, ErrorCode::invalid_input);
}

TEST(Choose, the_cpu_build_has_its_own_index_and_no_cuda) {
  const auto choice =
      choose(project_with({"torch"}), machine_with("470.82.01", {"3.5"}), {.build = project::Build::cpu});
  ASSERT_TRUE(choice) << shown(choice);
  EXPECT_EQ(choice->build, project::Build::cpu);
  EXPECT_THAT(choice->index_urls, ElementsAre("https://download.pytorch.org/whl/cpu"));
  EXPECT_EQ(choice->combination->series, "2.15");
  EXPECT_EQ(choice->combination->cuda, "");
  EXPECT_EQ(choice->combination->driver_floor, "");
  EXPECT_THAT(lines_of(choice->bounds, "torch"), ElementsAre("torch<2.16"));
}

TEST(Choose, trail_toml_can_ask_for_the_cpu_build) {
  auto needs = project_with({"tensorflow"});
  needs.settings.build = project::Build::cpu;
  const auto choice = choose(needs, machine_with("535.183.01", {"8.0"}), {});
  ASSERT_TRUE(choice);
  EXPECT_EQ(choice->build, project::Build::cpu);
  EXPECT_THAT(choice->extra_requirements, IsEmpty()) << "no GPU libraries";
}

TEST(Choose, the_cpu_build_and_a_pinned_cuda_build_contradict) {
  const auto choice = choose(project_with({"torch==1.12.1+cu113"}), machine_with(""), {.build = project::Build::cpu});
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().message, "the CPU build was asked for, but torch 1.12.1+cu113 is a build for CUDA");
  EXPECT_THAT(choice.error().hints, Contains(HasSubstr("`torch==1.12.1` without \"+cu113\"")));
}

TEST(Choose, a_pinned_cuda_build_brings_its_index_and_meets_no_bound) {
  const auto choice = choose(project_with({"torch==2.13.0+cu126"}), machine_with("535.183.01", {"7.0"}), {});
  ASSERT_TRUE(choice) << shown(choice);
  EXPECT_THAT(choice->index_urls, ElementsAre("https://download.pytorch.org/whl/cu126"));
  EXPECT_EQ(choice->combination->cuda, "12.6");
  EXPECT_THAT(lines_of(choice->bounds, "torch"), IsEmpty());
}

TEST(Choose, an_index_that_the_project_names_itself_is_not_added_again) {
  auto needs = project_with({"torch==1.12.1+cu113"});
  needs.indexes.extra_index_urls.push_back(
      {.value = "https://download.pytorch.org/whl/cu113", .origin = {.file = "requirements.txt", .line = 1}});
  const auto choice = choose(needs, machine_with(""), {});
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->index_urls, IsEmpty());
}

TEST(Choose, a_pinned_cpu_build_makes_it_the_cpu_build) {
  const auto choice = choose(project_with({"torch==2.4.0+cpu"}), machine_with("580.65.06", {"12.0"}), {});
  ASSERT_TRUE(choice) << shown(choice);
  EXPECT_EQ(choice->build, project::Build::cpu);
  EXPECT_EQ(choice->combination->series, "2.4");
  EXPECT_THAT(choice->index_urls, ElementsAre("https://download.pytorch.org/whl/cpu"));
}

TEST(Choose, the_index_of_torchs_cpu_builds_is_not_asked_for_projects_without_torch) {
  const ChooseOptions cpu{.build = project::Build::cpu};
  for (const char* framework : {"tensorflow", "jax"}) {
    const auto choice = choose(project_with({framework}), machine_with("580.65.06", {"9.0"}), cpu);
    ASSERT_TRUE(choice) << shown(choice);
    EXPECT_THAT(choice->index_urls, IsEmpty()) << framework;
  }
  const auto both = choose(project_with({"tensorflow", "torch"}), machine_with("580.65.06", {"9.0"}), cpu);
  ASSERT_TRUE(both) << shown(both);
  EXPECT_EQ(both->index_urls.size(), 1U);
}

TEST(Choose, tensorflow_gets_the_extra_that_brings_cuda) {
  const auto extras = [](const std::string& package, const std::string& python = "") {
    return choose(project_with({package}, python), machine_with(""), {})->extra_requirements;
  };
  EXPECT_THAT(extras("tensorflow"), ElementsAre("tensorflow[and-cuda]"));
  EXPECT_THAT(extras("tensorflow==2.14.1"),
              AllOf(Contains("nvidia-cudnn-cu11==8.7.0.84"), Not(Contains(HasSubstr("and-cuda")))))
      << "its extra asks for a tensorrt that has no wheel for Python 3.11";
  EXPECT_THAT(extras("tensorflow==2.13.1"), Contains("nvidia-cudnn-cu11==8.6.0.163")) << "has no such extra";
  EXPECT_THAT(extras("tensorflow==2.13.1"), Not(Contains(HasSubstr("and-cuda"))));
  EXPECT_THAT(extras("tensorflow==2.15.0"), IsEmpty()) << "its extra can't be installed";
  EXPECT_THAT(extras("tensorflow==2.15.1"), ElementsAre("tensorflow[and-cuda]"));
  EXPECT_THAT(extras("tensorflow[and-cuda]"), IsEmpty()) << "asked for already";
  EXPECT_THAT(extras("tensorflow-cpu"), IsEmpty());
  EXPECT_THAT(extras("jax"), ElementsAre("jax[cuda12]"));
  EXPECT_THAT(extras("jax==0.4.20"), IsEmpty()) << "its GPU build is on another index";
  EXPECT_THAT(extras("torch"), IsEmpty());
}

TEST(Choose, tensorflow_that_will_run_on_the_cpu_is_told) {
  const auto choice = choose(project_with({"tensorflow==2.15.0"}), machine_with("535.183.01", {"8.0"}), {});
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->steps, Contains(AllOf(HasSubstr("tensorflow 2.15.0"), HasSubstr("runs on the CPU"))));
}

TEST(Choose, old_tensorflow_gets_its_cuda_as_wheels_and_is_told_to_be_unchecked) {
  const auto choice = choose(project_with({"tensorflow==2.11.1"}), machine_with("535.183.01", {"8.0"}), {});
  ASSERT_TRUE(choice);
  EXPECT_THAT(choice->extra_requirements,
              AllOf(Contains("nvidia-cuda-runtime-cu11==11.8.89"), Contains("nvidia-cudnn-cu11==8.6.0.163")));
  EXPECT_THAT(choice->steps, Contains(AllOf(HasSubstr("loads CUDA 11.2"), HasSubstr("unchecked on a GPU"))));
  const auto on_cpu = choose(project_with({"tensorflow==2.11.1"}), machine_with(""), {.build = project::Build::cpu});
  EXPECT_THAT(on_cpu->extra_requirements, IsEmpty());
}

TEST(Choose, old_tensorflow_beside_torch_leaves_the_gpu_libraries_to_torch) {
  const auto choice = choose(project_with({"tensorflow==2.12.1", "torch==2.1.2"}), machine_with(""), {});
  ASSERT_TRUE(choice) << shown(choice);
  EXPECT_THAT(choice->extra_requirements, IsEmpty());
  EXPECT_THAT(choice->steps, Contains(AllOf(HasSubstr("tensorflow 2.12"), HasSubstr("would clash"))));
}

TEST(Choose, a_flag_for_a_framework_that_is_not_declared_takes_the_declared_ones_place) {
  const auto choice = choose(project_with({"tensorflow==2.15.1", "torchvision", "numpy"}), machine_with(""),
                             {.framework = "jax==0.5.3"});
  ASSERT_TRUE(choice) << shown(choice);
  EXPECT_EQ(choice->combination->framework, "jax");
  EXPECT_THAT(choice->left_out, testing::UnorderedElementsAre("tensorflow", "torchvision"));
}

TEST(Choose, a_flag_for_one_of_the_declared_frameworks_leaves_the_other) {
  const auto choice =
      choose(project_with({"tensorflow==2.15.1", "torch"}), machine_with(""), {.framework = "torch==2.4.1"});
  ASSERT_TRUE(choice) << shown(choice);
  EXPECT_THAT(choice->left_out, IsEmpty());
}

TEST(Choose, the_place_of_the_framework_in_trail_toml_is_named) {
  const auto choice = choose(project_with({"numpy"}), machine_with("535.183.01"),
                             {.framework = "torch==2.12.*", .framework_origin = "trail.toml:2"});
  ASSERT_FALSE(choice);
  EXPECT_THAT(choice.error().context, Contains(HasSubstr("read from trail.toml:2")));
}

TEST(Choose, tensorflow_gpu_is_kept_off_its_stub) {
  const auto choice = choose(project_with({"tensorflow-gpu"}), machine_with(""), {});
  ASSERT_TRUE(choice) << shown(choice);
  EXPECT_EQ(choice->combination->series, "2.11");
  EXPECT_THAT(choice->bounds, Contains(testing::Field(&Bound::requirement, "tensorflow-gpu<2.12")));
}

TEST(Choose, a_release_newer_than_the_catalog_is_taken_unchecked) {
  for (const char* package : {"torch==2.17.0", "torch>=2.16"}) {
    const auto choice = choose(project_with({package}), machine_with("535.183.01", {"8.0"}), {});
    ASSERT_TRUE(choice) << shown(choice);
    EXPECT_FALSE(choice->combination);
    EXPECT_THAT(lines_of(choice->bounds, "torch"), IsEmpty());
    EXPECT_THAT(choice->steps, Contains(AllOf(HasSubstr("not in the catalog"), HasSubstr("unchecked"))));
  }
}

TEST(Choose, a_framework_from_its_repository_is_taken_unchecked) {
  auto needs = project_with({"torch"});
  needs.packages[0].kind = project::SourceKind::vcs;
  needs.packages[0].location = "git+https://example.org/pytorch";
  const auto choice = choose(needs, machine_with("535.183.01", {"8.0"}), {});
  ASSERT_TRUE(choice);
  EXPECT_FALSE(choice->combination);
  EXPECT_THAT(lines_of(choice->bounds, "torch"), IsEmpty());
}

TEST(Choose, constraints_bound_what_is_declared_and_declare_nothing) {
  auto needs = project_with({"torch"});
  needs.constraints = project_with({"torch<2.3", "tensorflow==1.15.0"}).packages;
  const auto choice = choose(needs, machine_with(""), {});
  ASSERT_TRUE(choice) << shown(choice);
  EXPECT_EQ(choice->combination->series, "2.2");
}

TEST(Choose, condas_cuda_is_told_not_to_matter) {
  auto needs = project_with({"torch==1.11.0"});
  needs.cuda = {.value = "11.3", .origin = {.file = "environment.yaml", .line = 7}};
  const auto choice = choose(needs, machine_with(""), {});
  ASSERT_TRUE(choice);
  EXPECT_THAT(
      choice->steps,
      Contains("CUDA 11.3 (environment.yaml:7) is not installed: wheels bring their own, torch 1.11 has CUDA 10.2"));
}

TEST(Choose, a_specifier_that_is_none_is_named_with_its_place) {
  const auto choice = choose(project_with({"torch~=1.12.1+cu113"}), machine_with(""), {});
  ASSERT_FALSE(choice);
  EXPECT_EQ(choice.error().code, ErrorCode::invalid_input);
  EXPECT_THAT(choice.error().context, Contains("read from requirements.txt:1"));
}

TEST(Choose, takes_less_than_ten_milliseconds) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer's time is not the program's";
#endif
  const auto needs = project_with({"torch>=1.13", "torchvision", "tensorflow", "jax"}, ">=3.8");
  const auto machine = machine_with("535.183.01", {"8.0", "8.0", "9.0"});
  static_cast<void>(combinations());
  auto fastest = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 20; ++i) {  // the fastest of a few: other work on the machine is not our subject
    const auto start = std::chrono::steady_clock::now();
    ASSERT_TRUE(choose(needs, machine, {}));
    fastest = std::min(fastest, std::chrono::steady_clock::now() - start);
  }
  EXPECT_LT(fastest, std::chrono::milliseconds(10));
}

}  // namespace
}  // namespace startrail::catalog
