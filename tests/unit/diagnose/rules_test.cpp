#include <gtest/gtest.h>

#include <set>

#include "diagnose/diagnose.hpp"
#include "diagnose/literal_scanner.hpp"
#include "diagnose/rule.hpp"

namespace startrail::diagnose {
namespace {

std::vector<Finding> findings_in(std::string_view text) {
  auto found = diagnose_text(text, "log", {});
  EXPECT_TRUE(found) << (found ? "" : to_text(found.error()));
  return found ? std::move(*found) : std::vector<Finding>();
}

const std::vector<Rule>& all_rules() {
  static const auto all = rules();
  return **all;
}

TEST(Rules, can_all_be_read) {
  const auto all = rules();
  ASSERT_TRUE(all) << to_text(all.error());
  EXPECT_GT((*all)->size(), 60U);
}

TEST(Rules, have_names_of_their_own_and_explain_rules_that_exist) {
  std::set<std::string> names;
  for (const Rule& rule : all_rules()) EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
  for (const Rule& rule : all_rules())
    for (const auto& other : rule.explains) EXPECT_TRUE(names.contains(other)) << rule.name << " explains " << other;
}

class OneRule : public ::testing::TestWithParam<std::size_t> {};

TEST_P(OneRule, finds_its_examples_first_and_leaves_others_alone) {
  const Rule& rule = all_rules()[GetParam()];
  EXPECT_FALSE(rule.examples.empty() && rule.check.empty()) << rule.name << " has no example";
  for (const auto& example : rule.examples) {
    const auto findings = findings_in("starting\n" + example + "\nend\n");
    ASSERT_FALSE(findings.empty()) << rule.name << ": " << example;
    EXPECT_EQ(findings.front().rule, rule.name) << example;
    EXPECT_EQ(findings.front().summary.find('{'), std::string::npos) << findings.front().summary;
  }
  for (const auto& other : rule.not_examples)
    for (const auto& finding : findings_in(other)) EXPECT_NE(finding.rule, rule.name) << other;
}

INSTANTIATE_TEST_SUITE_P(all, OneRule, ::testing::Range(std::size_t{0}, all_rules().size()), [](const auto& at) {
  std::string name = all_rules()[at.param].name;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

TEST(Diagnosis, a_healthy_log_has_no_finding) {
  std::string log;
  for (int step = 0; step < 2000; ++step)
    log +=
        "epoch 1 step " + std::to_string(step) + " loss: 0.53 lr 3e-4 memory: 10.2 GiB finance nanoseconds NaN-free\r";
  EXPECT_TRUE(findings_in(log).empty());
}

TEST(Diagnosis, the_cause_comes_before_its_consequence) {
  const auto findings = findings_in(
      "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of "
      "23.65 GiB of which 1.10 GiB is free. Of the allocated memory 21.00 GiB is allocated by PyTorch, and 200.00 MiB "
      "is "
      "reserved by PyTorch but unallocated.\n[Rank 0] Watchdog caught collective operation timeout: "
      "WorkNCCL(SeqNum=96, "
      "OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800624 milliseconds before timing out.\n");
  ASSERT_EQ(findings.size(), 2U);
  EXPECT_EQ(findings[0].cause, "cuda-oom");
  EXPECT_EQ(findings[0].evidence.front().line, 1U);
  EXPECT_EQ(findings[1].cause, "nccl-timeout");
  EXPECT_EQ(findings[1].evidence.front().line, 2U);
}

TEST(Diagnosis, progress_bars_lines_without_end_and_bytes_that_are_no_text_are_read) {
  std::string log(300'000, 'x');
  log += " 12%|#   |\rRuntimeError: CUDA error: device-side assert triggered";
  log += std::string("\xff\xfe\x00 rest", 8);
  const auto findings = findings_in(log);
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].cause, "device-assert");
  EXPECT_TRUE(findings_in("").empty());
}

TEST(LiteralScanner, reports_every_text_even_those_within_others) {
  LiteralScanner scanner;
  scanner.add("he", 0);
  scanner.add("she", 1);
  scanner.add("hers", 2);
  scanner.add("his", 3);
  scanner.finish();
  std::vector<std::pair<unsigned, std::size_t>> found;
  scanner.scan("ushers", [&](unsigned id, std::size_t end) { found.emplace_back(id, end); });
  EXPECT_EQ(found, (std::vector<std::pair<unsigned, std::size_t>>{{1, 4}, {0, 4}, {2, 6}}));
}

}  // namespace
}  // namespace startrail::diagnose
