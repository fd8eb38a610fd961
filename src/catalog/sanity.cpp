#include "catalog/sanity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "catalog/rows.hpp"
#include "machine/versions.hpp"
#include "project/version.hpp"

namespace startrail::catalog {
namespace {

struct Span {
  std::string_view from, until;  // CUDA releases, the second one excluded; "" when there is no end
  std::string_view driver;
};
// CUDA Toolkit release notes, "CUDA Toolkit and Minimum Required Driver Version for CUDA Minor Version Compatibility".
constexpr std::array k_drivers{Span{"9.0", "9.1", "384.81"},      Span{"9.1", "9.2", "390.46"},
                               Span{"9.2", "10.0", "396.26"},     Span{"10.0", "10.1", "410.48"},
                               Span{"10.1", "10.2", "418.39"},    Span{"10.2", "11.0", "440.33"},
                               Span{"11.0", "11.1", "450.36.06"}, Span{"11.1", "12.0", "450.80.02"},
                               Span{"12.0", "13.0", "525.60.13"}, Span{"13.0", "14.0", "580.65.06"}};

struct Support {
  std::string_view architecture, from, until;  // CUDA releases whose compiler makes kernels for it
};
// The release notes' "deprecated or dropped architectures" and "new architectures".
constexpr std::array k_support{
    Support{"3.5", "5.0", "12.0"}, Support{"3.7", "6.5", "12.0"}, Support{"5.0", "6.0", "13.0"},
    Support{"5.2", "6.5", "13.0"}, Support{"6.0", "8.0", "13.0"}, Support{"6.1", "8.0", "13.0"},
    Support{"7.0", "9.0", "13.0"}, Support{"7.5", "10.0", ""},    Support{"8.0", "11.0", ""},
    Support{"8.6", "11.1", ""},    Support{"8.9", "11.8", ""},    Support{"9.0", "11.8", ""},
    Support{"10.0", "12.8", ""},   Support{"10.3", "12.9", ""},   Support{"12.0", "12.8", ""}};

bool is_sorted(const std::vector<std::string>& versions) {
  return std::ranges::adjacent_find(versions, [](const auto& a, const auto& b) { return !machine::older(a, b); }) ==
         versions.end();
}

class RowCheck {
 public:
  RowCheck(const Combination& row, std::vector<Finding>& into) : m_row(row), m_findings(into) {}

  void run() {
    facts_are_there();
    facts_have_sources();
    lists_are_sorted();
    driver_fits_cuda();
    architectures_fit_cuda();
    companions_are_requirements();
  }

 private:
  void found(std::string what) {
    m_findings.push_back({.row = title(m_row), .file = m_row.file, .what = std::move(what)});
  }

  void facts_are_there() {
    if (m_row.cuda.empty()) found("names no CUDA");
    if (m_row.glibc_floor.empty()) found("names no glibc");
    if (m_row.cudnn.empty() && m_row.tag.empty()) found("names no cuDNN");
    if (m_row.driver_rule.empty()) found("doesn't say what its driver floor means");
    if (m_row.gpu_wheels.empty() != m_row.environment.empty())
      found("has GPU wheels without the variables that find them, or variables without wheels");
    if (!m_row.tag.empty() && !m_row.index.ends_with(m_row.tag) && m_row.provider == Provider::startrail)
      found(fmt::format("has the index {}, which is not that of {}", m_row.index, m_row.tag));
  }

  void facts_have_sources() {
    for (const char* fact :
         {"cuda", "cudnn", "nccl", "pythons", "driver_floor", "architectures", "glibc_floor", "newest"})
      if (source_of(m_row, fact).empty() && !is_unknown(fact)) found(fmt::format("has no source for `{}`", fact));
    if (!m_row.companions.empty() && source_of(m_row, "companions").empty()) found("has no source for its companions");
    if (!m_row.gpu_wheels.empty() && source_of(m_row, "gpu_wheels").empty()) found("has no source for its GPU wheels");
  }

  [[nodiscard]] bool is_unknown(std::string_view fact) const {
    return (fact == "nccl" && m_row.nccl.empty()) || (fact == "cudnn" && m_row.cudnn.empty());
  }

  void lists_are_sorted() {
    if (!is_sorted(m_row.pythons)) found("lists its Pythons out of order");
    if (!is_sorted(m_row.architectures)) found("lists its architectures out of order");
  }

  void driver_fits_cuda() {
    const std::string floor = driver_for_cuda(m_row.cuda);
    if (floor.empty())
      found(fmt::format("has CUDA {}, of which no driver is known", m_row.cuda));
    else if (floor != m_row.driver_floor)
      found(fmt::format("has the driver floor {}, but CUDA {} needs {}", m_row.driver_floor, m_row.cuda, floor));
  }

  void architectures_fit_cuda() {
    for (const auto& architecture : m_row.architectures) {
      const auto known = std::ranges::find(k_support, architecture, &Support::architecture);
      if (known == k_support.end()) {
        found(fmt::format("has kernels for {}, of which nothing is known", architecture));
        continue;
      }
      // "12" says the major only: any of its minors.
      const std::string cuda = m_row.cuda.find('.') == std::string::npos ? m_row.cuda + ".99" : m_row.cuda;
      const bool gone = !known->until.empty() && !machine::older(m_row.cuda, known->until);
      if (machine::older(cuda, known->from) || gone)
        found(fmt::format("has kernels for {}, which CUDA {} can't make", architecture, m_row.cuda));
    }
  }

  void companions_are_requirements() {
    for (const auto* list : {&m_row.companions, &m_row.gpu_wheels})
      for (const auto& line : *list) {
        const auto end = std::min(line.find_first_of("=<>!~"), line.size());
        if (end == 0 || !project::SpecifierSet::parse(line.substr(end)))
          found(fmt::format("has the companion `{}`, which is no requirement", line));
      }
    if (!m_row.numpy.empty() && !project::SpecifierSet::parse(m_row.numpy))
      found(fmt::format("has the bound `{}` on numpy, which is none", m_row.numpy));
  }

  const Combination& m_row;
  std::vector<Finding>& m_findings;
};

void check_order(std::span<const Combination> rows, std::vector<Finding>& into) {
  std::set<std::string> seen;
  const Combination* before = nullptr;
  for (const auto& row : rows) {
    if (!seen.insert(title(row)).second) into.push_back({title(row), row.file, "is there twice"});
    if (before != nullptr && before->framework == row.framework && is_newer(row.series, before->series))
      into.push_back({title(row), row.file, fmt::format("stands after the older {}", title(*before))});
    before = &row;
  }
}

}  // namespace

std::string driver_for_cuda(std::string_view cuda) {
  for (const auto& span : k_drivers)
    if (!machine::older(cuda, span.from) && machine::older(cuda, span.until)) return std::string(span.driver);
  return "";
}

std::vector<Finding> findings(std::span<const Combination> rows) {
  std::vector<Finding> all;
  for (const auto& row : rows) RowCheck(row, all).run();
  check_order(rows, all);
  return all;
}

}  // namespace startrail::catalog
