#include "supervise/findings.hpp"

#include <string>
#include <system_error>
#include <vector>

#include "diagnose/diagnose.hpp"
#include "run/log.hpp"
#include "run/record.hpp"

namespace startrail::supervise {
namespace {

constexpr std::size_t k_most_text = 16U << 20U;
constexpr std::size_t k_most_findings = 3;

std::vector<diagnose::Finding> findings_in(std::string_view text, std::string_view source,
                                           const machine::Machine& machine) {
  auto found = diagnose::diagnose_text(text, source, {.machine = &machine});
  return found ? std::move(*found) : std::vector<diagnose::Finding>();
}

bool is_cut(const fs::path& run_directory) {
  std::error_code unknown;
  const auto size = fs::file_size(run_directory / run::k_log_file, unknown);
  return !unknown && size > k_most_text;
}

}  // namespace

Json findings_in_log(const fs::path& run_directory, std::string_view cause, const machine::Machine& machine) {
  const std::string text = run::log_tail(run_directory, k_most_text);
  auto findings = findings_in(text, "log", machine);
  if (findings.empty()) findings = findings_in(cause, "trail", machine);
  if (findings.size() > k_most_findings) findings.resize(k_most_findings);
  const bool cut = is_cut(run_directory);
  Json list = Json::array();
  for (auto& finding : findings) {
    if (cut)
      for (auto& evidence : finding.evidence) evidence.line = 0;
    list.push_back(diagnose::to_json(finding));
  }
  return list;
}

}  // namespace startrail::supervise
