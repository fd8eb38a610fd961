#include "catalog/rows.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "base/document.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "catalog/hardware.hpp"
#include "catalog/plain_toml.hpp"
#include "catalog/pythons.hpp"
#include "catalog_data.hpp"
#include "machine/versions.hpp"
#include "situation.hpp"

namespace startrail::catalog {
namespace {

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

// ---- the files ----

TEST(CatalogFiles, are_read_by_the_small_reader_as_a_full_parser_reads_them) {
  for (const auto& [name, text] : k_catalog_files) {
    const auto full = base::parse_toml(text, name);
    const auto plain = parse_plain_toml(text, name);
    ASSERT_TRUE(full && plain) << name;
    // Tables of a TOML document have no order.
    EXPECT_EQ(nlohmann::json::parse(full->root.dump()), nlohmann::json::parse(plain->root.dump())) << name;
  }
}

TEST(CatalogFiles, every_file_gives_whole_rows) {
  for (const auto& [name, text] : k_catalog_files) {
    if (name == "catalog/verified.toml") continue;
    const auto rows = parse_rows(text, name);
    ASSERT_TRUE(rows) << base::to_text(rows.error());
    EXPECT_GE(rows->size(), 5U) << name;
  }
  EXPECT_EQ(k_catalog_files.size(), 4U) << "a file for each framework, and one of verifications";
}

TEST(CatalogFiles, rows_are_newest_first_and_unique) {
  std::set<std::string> seen;
  const Combination* before = nullptr;
  for (const auto& row : combinations()) {
    EXPECT_TRUE(seen.insert(title(row)).second) << title(row);
    const bool same = before != nullptr && before->framework == row.framework;
    EXPECT_FALSE(same && is_newer(row.series, before->series)) << title(row);
    before = &row;
  }
}

TEST(CatalogFiles, facts_have_the_form_that_choosing_relies_on) {
  for (const auto& row : combinations()) {
    EXPECT_THAT(row.newest, StartsWith(row.series + ".")) << title(row);
    EXPECT_THAT(row.source, Not(IsEmpty())) << title(row);
    EXPECT_TRUE(std::ranges::is_sorted(row.architectures, machine::older)) << title(row);
    EXPECT_TRUE(std::ranges::is_sorted(row.pythons, machine::older)) << title(row);
    EXPECT_EQ(machine::version_numbers(row.driver_floor).size() >= 2, true) << title(row);
    EXPECT_TRUE(row.status == "declared" || row.status == "verified") << title(row);
    EXPECT_TRUE(row.index.ends_with(row.tag)) << title(row);
  }
}

TEST(CatalogFiles, newer_cuda_needs_no_older_driver) {
  for (const auto& a : combinations())
    for (const auto& b : combinations())
      EXPECT_FALSE(machine::older(a.cuda, b.cuda) && machine::older(b.driver_floor, a.driver_floor)) << title(b);
}

TEST(CatalogFiles, a_fact_that_is_missing_is_named) {
  const auto rows = parse_rows("framework = \"torch\"\n[[row]]\nseries = \"2.6\"\nnewest = \"2.6.0\"\n", "x.toml");
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().code, ErrorCode::corrupt);
  EXPECT_EQ(rows.error().message, "x.toml:2: the row `torch 2.6` lacks the field `pythons`");
}

TEST(CatalogFiles, a_build_of_a_series_without_a_row_is_named) {
  const auto rows = parse_rows("framework = \"torch\"\n[[build]]\ntag = \"cu1\"\nseries = [\"9.9\"]\n", "x.toml");
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().message, "x.toml:2: a build names 9.9, which has no row");
}

TEST(PlainToml, what_it_does_not_read_is_refused_with_its_line) {
  for (const char* text : {"a = 1", "a = \"x", "a = \"x\" y", "[[row", "[table]", "a = [\"x\" \"y\"]", "a = \"\\n\"",
                           "a = \"x\"\na = \"y\"", "just words"}) {
    const auto result = parse_plain_toml(std::string("# first\n") + text, "x.toml");
    ASSERT_FALSE(result) << text;
    EXPECT_THAT(result.error().message, testing::AnyOf(StartsWith("x.toml:2: "), StartsWith("x.toml:3: "))) << text;
  }
}

// ---- finding ----

TEST(Find, a_locked_version_finds_its_series) {
  ASSERT_NE(find("torch", "2.6.0"), nullptr);
  EXPECT_EQ(find("torch", "2.6.0")->cuda, "12.4");
  EXPECT_EQ(find("torch", "2.10.0")->series, "2.10") << "not 2.1";
  EXPECT_EQ(find("tensorflow-cpu", "2.15.1")->framework, "tensorflow");
  EXPECT_EQ(find("jaxlib", "0.4.30")->series, "0.4");
  EXPECT_EQ(find("torch", "9.9.9"), nullptr);
  EXPECT_EQ(find("numpy", "1.26.4"), nullptr);
  EXPECT_EQ(find("torch", "not a version"), nullptr);
}

TEST(Find, a_local_version_finds_the_build_for_that_cuda) {
  EXPECT_EQ(find("torch", "1.12.1+cu113")->cuda, "11.3");
  EXPECT_EQ(find("torch", "1.12.1")->cuda, "10.2");
  EXPECT_EQ(find("torch", "1.12.1+cu999")->cuda, "10.2") << "an unknown build falls back on its series";
}

// ---- checking a lock ----

TEST(Check, a_locked_release_is_refused_as_choosing_would) {
  const auto* row = find("torch", "2.13.0");
  const auto result = check(*row, "2.13.0", machine_with("535.183.01", {"8.0"}), "pylock.trail.toml");
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "torch 2.13.0 needs NVIDIA driver 580 or newer; this machine has 535.183.01");
  EXPECT_THAT(result.error().context, ElementsAre("read from pylock.trail.toml and /proc/driver/nvidia/version"));
  EXPECT_THAT(result.error().hints, Contains(HasSubstr("torch==2.10.0")));
}

TEST(Check, what_runs_here_passes) {
  EXPECT_TRUE(check(*find("torch", "2.13.0"), "2.13.0", machine_with("580.65.06", {"9.0"}), "lock"));
  EXPECT_TRUE(check(*find("torch", "2.13.0"), "2.13.0", machine_with(""), "lock")) << "no driver: it runs on the CPU";
  EXPECT_TRUE(check(*find("torch", "2.13.0+cpu"), "2.13.0+cpu", machine_with("470.1", {"3.7"}), "lock"));
  EXPECT_TRUE(check(*find("tensorflow", "2.4.0"), "2.4.0", machine_with("390.1", {"3.0"}), "lock"))
      << "brings no GPU libraries";
}

// ---- architectures ----

TEST(Architectures, kernels_run_on_later_minors_of_their_major_only) {
  Combination row;
  row.architectures = {"7.0", "8.6"};
  EXPECT_TRUE(covers(row, gpu("7.5", "T4")));
  EXPECT_TRUE(covers(row, gpu("8.9", "L4")));
  EXPECT_FALSE(covers(row, gpu("8.0", "A100"))) << "older than the kernel";
  EXPECT_FALSE(covers(row, gpu("9.0", "H100")));
  row.ptx = true;
  EXPECT_TRUE(covers(row, gpu("9.0", "H100"))) << "by PTX of 8.6";
  EXPECT_FALSE(covers(row, gpu("8.0", "A100"))) << "PTX is for newer GPUs only";
  EXPECT_FALSE(covers(row, gpu("6.1", "P4")));
}

// ---- Pythons ----

TEST(Pythons, runs_of_minors_are_shortened) {
  EXPECT_EQ(shown_minors({"2.7", "3.5", "3.6", "3.7", "3.8"}), "2.7 and 3.5 to 3.8");
  EXPECT_EQ(shown_minors({"3.9"}), "3.9");
  EXPECT_EQ(shown_minors({"3.9", "3.11", "3.13"}), "3.9, 3.11 and 3.13");
  EXPECT_EQ(shown_minors({}), "none");
}

TEST(Json, a_row_has_every_fact_and_null_for_none) {
  const Json json = to_json(*find("torch", "2.6.0"));
  EXPECT_EQ(json.at("series"), "2.6");
  EXPECT_EQ(json.at("driver_floor"), "525.60.13");
  EXPECT_TRUE(json.at("index").is_null());
  EXPECT_TRUE(to_json(*find("torch", "1.12.1")).at("nccl").is_null());
}

}  // namespace
}  // namespace startrail::catalog
