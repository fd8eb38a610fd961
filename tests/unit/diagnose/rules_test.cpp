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

// A sheet as diagnose_host makes it, back into facts.
std::vector<machine::Fact> facts_of(std::string_view sheet) {
  std::vector<machine::Fact> facts;
  while (!sheet.empty()) {
    const std::string_view line = sheet.substr(0, sheet.find('\n'));
    const std::size_t colon = line.find(": ");
    facts.push_back({std::string(line.substr(0, colon)), std::string(line.substr(colon + 2)), "a file"});
    sheet.remove_prefix(std::min(sheet.size(), line.size() + 1));
  }
  return facts;
}

std::vector<Finding> findings_on(std::string_view sheet) {
  auto found = diagnose_host(facts_of(sheet), "", {});
  EXPECT_TRUE(found) << (found ? "" : to_text(found.error()));
  return found ? std::move(*found) : std::vector<Finding>();
}

// "error: " and the refusal's one sentence.
std::vector<Finding> findings_of_refusal(std::string_view text) {
  constexpr std::string_view k_prefix = "error: ";
  auto found = diagnose_refusal(base::error(ErrorCode::refused, std::string(text.substr(k_prefix.size()))), {});
  EXPECT_TRUE(found) << (found ? "" : to_text(found.error()));
  return found ? std::vector{std::move(*found)} : std::vector<Finding>();
}

std::vector<Finding> findings_of(const Rule& rule, const std::string& example) {
  switch (rule.about) {
    case About::host: return findings_on(example);
    case About::project: return findings_of_refusal(example);
    case About::log: return findings_in("starting\n" + example + "\nend\n");
  }
  return {};
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
    const auto findings = findings_of(rule, example);
    ASSERT_FALSE(findings.empty()) << rule.name << ": " << example;
    EXPECT_EQ(findings.front().rule, rule.name) << example;
    EXPECT_EQ(findings.front().summary.find('{'), std::string::npos) << findings.front().summary;
  }
  for (const auto& other : rule.not_examples)
    for (const auto& finding : findings_of(rule, other)) EXPECT_NE(finding.rule, rule.name) << other;
}

INSTANTIATE_TEST_SUITE_P(all, OneRule, ::testing::Range(std::size_t{0}, all_rules().size()), [](const auto& at) {
  std::string name = all_rules()[at.param].name;
  for (char& c : name)
    if (c == '-') c = '_';
  return name;
});

TEST(ProjectDiagnosis, the_refusals_hints_come_first_and_its_words_are_the_evidence) {
  const auto finding = diagnose_refusal(
      base::error(ErrorCode::refused, "torch 2.13.0 needs NVIDIA driver 580 or newer; this machine has 535.183.01")
          .with_context("read from requirements.txt:1")
          .with_hint("`trail run --framework torch==2.10.0` is the newest that works here"),
      {});
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->cause, "driver-too-old");
  EXPECT_EQ(finding->fixes.front(), "`trail run --framework torch==2.10.0` is the newest that works here");
  ASSERT_EQ(finding->evidence.size(), 2U);
  EXPECT_EQ(finding->evidence[1].text, "read from requirements.txt:1");
}

TEST(ProjectDiagnosis, a_refusal_of_an_unknown_kind_is_told_as_it_is) {
  const auto finding = diagnose_refusal(base::error(ErrorCode::refused, "something new"), {});
  ASSERT_TRUE(finding);
  EXPECT_EQ(finding->cause, "project");
  EXPECT_EQ(finding->summary, "something new");
}

TEST(HostDiagnosis, a_healthy_host_has_no_finding) {
  EXPECT_TRUE(
      findings_on("card.0000:3b:00.0.driver: nvidia\ndriver.module: 580.65.06\ndriver.library: 580.65.06\n"
                  "driver.cuda: 13.0\ngpus: 1\nnode./dev/nvidiactl: mode 0666, owner 0:0, usable by this user\n"
                  "cdi.driver: 580.65.06 in /etc/cdi/nvidia.yaml\ntoolkit: present\nengine: docker\nnvswitch: present\n"
                  "fabricmanager: running\nmig.0.instances: 7\ninfiniband.mlx5_0.1: 4: ACTIVE\n"
                  "memlock: unlimited\nruntime: usable\nruntime.runc: 1.1.5\nuser_namespaces: allowed\n"
                  "memory: 64000000000 bytes\nmemory.available: 60000000000 bytes\ndisk.size: 900000000000 bytes\n"
                  "disk.free: 500000000000 bytes\ndisk.inodes_free: 30000000\nshm.size: 32000000000 bytes\n"
                  "shm.free: 32000000000 bytes\nfiles.limit: 1048576\nclock.year: 2026\nclock.synchronised: yes\n")
          .empty());
}

TEST(HostDiagnosis, a_fact_with_a_line_end_in_it_is_one_fact) {
  const auto found =
      diagnose_host({{"runtime", "none\nfabricmanager: not running\nuser_namespaces: not allowed: x", "PATH"}}, "", {});
  ASSERT_TRUE(found);
  for (const auto& finding : *found) EXPECT_EQ(finding.cause, "no-runtime");
}

TEST(HostDiagnosis, apt_is_called_only_where_it_is) {
  EXPECT_EQ(findings_on("package_manager: apt\nruntime: none\n").front().commands,
            std::vector<std::string>{"apt-get install -y runc"});
  EXPECT_TRUE(findings_on("package_manager: unknown\nruntime: none\n").front().commands.empty());
}

TEST(HostDiagnosis, evidence_names_where_the_fact_was_read) {
  const auto findings = findings_on("runtime: usable\nfabricmanager: running\nnode./dev/nvidia-uvm: missing\n");
  ASSERT_EQ(findings.size(), 1U);
  EXPECT_EQ(findings[0].evidence.front().source, "a file");
  EXPECT_EQ(findings[0].evidence.front().line, 0U);
  EXPECT_EQ(findings[0].evidence.front().text, "node./dev/nvidia-uvm: missing");
  EXPECT_EQ(findings[0].commands, std::vector<std::string>{"nvidia-modprobe -u -c=0"});
}

TEST(HostDiagnosis, rules_of_hosts_and_of_logs_keep_to_their_own_text) {
  EXPECT_TRUE(findings_in("shm.size: 67108864 bytes\n").empty());
  EXPECT_TRUE(findings_on("text: RuntimeError: CUDA error: device-side assert triggered\n").empty());
}

TEST(HostDiagnosis, the_kernels_messages_tell_about_cards_only) {
  const auto found = diagnose_host({},
                                   "[ 12.1] NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.\n"
                                   "[ 13.0] systemd: Address already in use\n",
                                   {});
  ASSERT_TRUE(found);
  ASSERT_EQ(found->size(), 1U);
  EXPECT_EQ(found->front().cause, "xid");
  EXPECT_EQ(found->front().evidence.front().source, "kernel messages");
}

TEST(HostDiagnosis, what_a_groups_own_limit_did_is_not_the_hosts_trouble) {
  const auto found = diagnose_host(
      {},
      "oom-kill:constraint=CONSTRAINT_MEMCG,task=python3\nMemory cgroup out of memory: Killed process 7 (python3)\n",
      {});
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->empty());
  const auto host = diagnose_host({}, "[1] Out of memory: Killed process 7 (python3) total-vm:1kB\n", {});
  ASSERT_EQ(host->size(), 1U);
  EXPECT_EQ(certainty(host->front().confidence), "likely");
}

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
