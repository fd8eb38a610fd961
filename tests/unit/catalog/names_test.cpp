#include <gmock/gmock.h>

#include "catalog/rows.hpp"
#include "catalog/sanity.hpp"
#include "catalog/verified.hpp"

namespace startrail::catalog {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- names ----

TEST(Names, a_combination_is_understood_as_people_write_it) {
  for (const char* text : {"pytorch:2.6", "torch:2.6", "PyTorch:2.6", "torch==2.6"}) {
    const auto found = named(text);
    ASSERT_TRUE(found) << text;
    EXPECT_EQ(title(*found->row), "torch 2.6") << text;
    EXPECT_EQ(found->requirement, "torch==2.6.*") << text;
  }
  EXPECT_EQ(named("torch:2.6.0")->requirement, "torch==2.6.0");
  EXPECT_EQ(named("tensorflow:2.15")->requirement, "tensorflow==2.15.*");
  EXPECT_EQ(named("jax:0.4")->requirement, "jax==0.4.*");
}

TEST(Names, a_framework_alone_is_its_newest) {
  EXPECT_EQ(named("pytorch")->row->series, rows_of("torch", "").front()->series);
}

TEST(Names, a_build_for_another_cuda_is_one_release) {
  const auto found = named("pytorch:2.6+cu118");
  ASSERT_TRUE(found);
  EXPECT_EQ(found->row->cuda, "11.8");
  EXPECT_EQ(found->requirement, "torch==2.6.0+cu118") << "no set of releases can say a local version";
}

TEST(Names, an_unknown_one_names_the_nearest) {
  const auto found = named("pytorch:2.99");
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::not_found);
  EXPECT_THAT(found.error().hints, Contains(HasSubstr("pytorch:2.15, pytorch:2.14, pytorch:2.13")));
  EXPECT_THAT(named("caffe:1").error().context, Contains(HasSubstr("torch")));
  EXPECT_FALSE(named("pytorch:latest"));
  EXPECT_FALSE(named("pytorch:2.6+cu999"));
  EXPECT_FALSE(is_name("ubuntu:22.04"));
}

// ---- the user's own rows ----

constexpr const char* k_own = R"(framework = "torch"
[[row]]
series = "2.6"
newest = "2.6.7"
cuda = "12.9"
pythons = ["3.11"]
driver_floor = "525.60.13"
architectures = ["9.0"]
source = "our own build"
index = "https://wheels.example.org/torch"
)";

TEST(UserRows, win_over_the_compiled_in_ones_of_the_same_series) {
  const auto own = parse_rows(k_own, "mine.toml");
  ASSERT_TRUE(own) << base::to_text(own.error());
  const auto rows = with_own_rows(combinations(), *own);
  EXPECT_EQ(rows.size(), combinations().size());
  const auto found = std::ranges::find_if(
      rows, [](const auto& row) { return row.framework == "torch" && row.series == "2.6" && row.tag.empty(); });
  EXPECT_EQ(found->newest, "2.6.7");
  EXPECT_EQ(found->provider, Provider::user);
  EXPECT_EQ(found->file, "mine.toml");
  EXPECT_EQ(source_of(*found, "cuda"), "our own build");
}

TEST(UserRows, a_new_series_takes_its_place_in_the_order) {
  std::string text = k_own;
  text.replace(text.find("\"2.6\""), 5, "\"2.99\"");
  text.replace(text.find("\"2.6.7\""), 7, "\"2.99.0\"");
  const auto rows = with_own_rows(combinations(), parse_rows(text, "mine.toml").value());
  EXPECT_EQ(rows.size(), combinations().size() + 1);
  EXPECT_EQ(std::ranges::find(rows, "torch", &Combination::framework)->series, "2.99");
  EXPECT_THAT(findings(combinations()), IsEmpty());
}

TEST(UserRows, a_build_may_name_a_series_that_is_compiled_in) {
  const auto rows = parse_rows(
      "framework = \"torch\"\n[[build]]\ntag = \"cu199\"\nseries = [\"2.6\"]\ncuda = \"12.9\"\ndriver_floor = "
      "\"525.60.13\"\narchitectures = [\"9.0\"]\nindex = \"https://wheels.example.org/cu199\"\nsource = \"ours\"\n",
      "mine.toml", combinations());
  ASSERT_TRUE(rows) << base::to_text(rows.error());
  EXPECT_EQ(title(rows->front()), "torch 2.6+cu199");
  EXPECT_EQ(rows->front().torchvision, "0.21");
}

TEST(UserRows, a_bad_row_is_told_with_file_and_line) {
  const auto message = [](const std::string& from, const std::string& to) {
    std::string text = k_own;
    text.replace(text.find(from), from.size(), to);
    const auto rows = parse_rows(text, "mine.toml");
    return rows ? "no fault" : rows.error().message;
  };
  EXPECT_EQ(message("\"2.6\"", "\"two\""),
            "mine.toml:2: the row `torch two` has the series `two`, which is not like \"2.6\"");
  EXPECT_THAT(message("\"2.6.7\"", "\"2.5.0\""), HasSubstr("which is no release of 2.6"));
  EXPECT_THAT(message("[\"3.11\"]", "[\"311\"]"), HasSubstr("`pythons` that are not like"));
  EXPECT_THAT(message("\"525.60.13\"", "\"new\""), HasSubstr("driver floor `new`"));
  EXPECT_THAT(message("[\"3.11\"]", "3.11"), HasSubstr("mine.toml:6: expected"));
}

TEST(UserRows, wheels_that_need_a_newer_glibc_leave_older_suites_out) {
  Combination row;
  row.pythons = {"3.9", "3.11", "3.13"};
  row.glibc_floor = "2.28";
  EXPECT_THAT(suites_of(row), ElementsAre("bookworm", "trixie", "bullseye"));
  row.glibc_floor = "2.34";
  EXPECT_THAT(suites_of(row), ElementsAre("bookworm", "trixie"));
  row.glibc_floor = "2.38";
  EXPECT_THAT(suites_of(row), ElementsAre("trixie"));
}

// ---- sanity ----

std::vector<std::string> faults_of(Combination row) {
  std::vector<std::string> texts;
  for (const auto& item : findings(std::vector{std::move(row)})) texts.push_back(item.what);
  return texts;
}

TEST(Sanity, the_compiled_in_rows_hold_together) {
  for (const auto& item : findings(combinations())) ADD_FAILURE() << item.file << ": " << item.row << " " << item.what;
}

TEST(Sanity, facts_that_can_not_be_are_found) {
  Combination row = *find("torch", "2.6.0");
  row.driver_floor = "450.80.02";
  EXPECT_THAT(faults_of(row), ElementsAre("has the driver floor 450.80.02, but CUDA 12.4 needs 525.60.13"));
  row = *find("torch", "2.6.0");
  row.architectures.emplace_back("12.0");
  EXPECT_THAT(faults_of(row), ElementsAre("has kernels for 12.0, which CUDA 12.4 can't make"));
  row = *find("torch", "2.6.0");
  row.architectures.insert(row.architectures.begin(), "3.7");
  EXPECT_THAT(faults_of(row), ElementsAre("has kernels for 3.7, which CUDA 12.4 can't make"));
  row = *find("torch", "2.6.0");
  std::ranges::reverse(row.pythons);
  EXPECT_THAT(faults_of(row), ElementsAre("lists its Pythons out of order"));
  row = *find("torch", "2.6.0");
  row.source = "hearsay";
  EXPECT_THAT(faults_of(row), Contains("has no source for `cuda`"));
  row = *find("tensorflow", "2.12.1");
  row.environment.clear();
  EXPECT_THAT(faults_of(row), Contains(HasSubstr("GPU wheels without the variables")));
}

TEST(Sanity, the_driver_of_each_cuda_is_nvidias) {
  EXPECT_EQ(driver_for_cuda("11.0"), "450.36.06");
  EXPECT_EQ(driver_for_cuda("11.8"), "450.80.02");
  EXPECT_EQ(driver_for_cuda("12"), "525.60.13");
  EXPECT_EQ(driver_for_cuda("13.2"), "580.65.06");
  EXPECT_EQ(driver_for_cuda("99.0"), "");
}

// ---- verifications ----

TEST(Verifications, only_what_they_are_about_is_verified_and_where_is_told) {
  const auto verified = parse_verified(
      "[[verified]]\nframework = \"torch\"\nseries = \"2.6\"\nrelease = \"2.6.0\"\npython = \"3.11\"\nlevel = "
      "\"training\"\nhardware = \"cpu\"\ndate = \"2026-11-30\"\nimage = \"sha256:00\"\n",
      "verified.toml");
  ASSERT_TRUE(verified) << base::to_text(verified.error());
  auto rows = combinations();
  for (auto& row : rows) {
    row.status = "declared";
    row.verified_on.clear();
  }
  mark_verified(rows, *verified);
  mark_verified(rows, *verified);
  for (const auto& row : rows) EXPECT_EQ(row.status, title(row) == "torch 2.6" ? "verified" : "declared") << title(row);
  EXPECT_THAT(std::ranges::find(rows, "torch 2.6", &title)->verified_on, ElementsAre("cpu"));
}

TEST(Verifications, those_that_come_with_the_program_say_of_what_they_were_made_and_where) {
  ASSERT_THAT(compiled_in_verifications(), Not(IsEmpty()));
  for (const auto& item : compiled_in_verifications()) {
    const auto* row = find(item.framework, item.release);
    ASSERT_NE(row, nullptr) << item.framework << " " << item.release;
    EXPECT_TRUE(is_about(item, *row)) << item.image;
    EXPECT_THAT(row->verified_on, Contains(item.hardware)) << title(*row);
    EXPECT_EQ(item.lock.size(), 64U) << item.image;
    EXPECT_THAT(item.image, testing::StartsWith("sha256:"));
    EXPECT_TRUE(item.build == "cpu" || item.build == "gpu") << item.build;
    EXPECT_TRUE(item.result == "passed" || item.result == "warned") << item.result << " is no proof";
    EXPECT_EQ(item.level, "collectives") << "all levels were tried";
  }
}

TEST(Verifications, a_row_is_verified_by_one_of_them_and_by_nothing_else) {
  for (const auto& row : combinations())
    EXPECT_EQ(row.status == "verified",
              std::ranges::any_of(compiled_in_verifications(), [&](const auto& item) { return is_about(item, row); }))
        << title(row);
}

TEST(Verifications, in_words_what_was_tried_on_a_cpu_is_no_claim_about_gpus) {
  Verified item{.release = "2.20.0", .python = "3.11", .level = "collectives", .hardware = "cpu", .date = "2026-12-01"};
  EXPECT_EQ(in_words(item), "2.20.0 on Python 3.11 up to collectives, on a CPU only (a GPU is unchecked), 2026-12-01");
  item.build = "cpu";
  item.result = "warned";
  item.lock = "0123456789abcdef";
  EXPECT_EQ(in_words(item),
            "2.20.0, CPU build, on Python 3.11 up to collectives with warnings, on a CPU only (a GPU is unchecked), "
            "2026-12-01, lock 0123456789ab");
  item.hardware = "NVIDIA H200";
  EXPECT_THAT(in_words(item), HasSubstr("on NVIDIA H200, "));
}

TEST(Verifications, one_that_lacks_a_field_is_named_by_its_line) {
  const auto verified = parse_verified("# here\n[[verified]]\nframework = \"torch\"\n", "verified.toml");
  ASSERT_FALSE(verified);
  EXPECT_EQ(verified.error().message, "verified.toml:2: a verification lacks the field `series`");
}

}  // namespace
}  // namespace startrail::catalog
