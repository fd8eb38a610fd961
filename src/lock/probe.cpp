#include "lock/probe.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "lock/suite.hpp"
#include "lock/tags.hpp"
#include "project/version.hpp"

namespace startrail::lock {
namespace {

constexpr int k_most_obstacles = 24;
constexpr const char* k_own_folder = "the project's own folder";

// "lap-0.4.0.tar.gz" → "0.4.0"; "" for files that are no sources (PyPA "Source distribution file name").
std::string source_version(const std::string& filename) {
  for (const std::string_view suffix : {".tar.gz", ".zip", ".tar.bz2"}) {
    const auto dash = filename.rfind('-');
    if (filename.ends_with(suffix) && dash != std::string::npos)
      return filename.substr(dash + 1, filename.size() - suffix.size() - dash - 1);
  }
  return "";
}

// uv names packages that would need building beside contradictions too. Where this one has a wheel that the project's
// own specifier admits, building isn't what's missing.
bool has_admitted_wheel(const UvSession& session, const std::string& name, const catalog::PythonChoice& python) {
  const auto* requirement = session.request().find(name);
  if (requirement == nullptr) return false;
  const auto specifier = project::SpecifierSet::parse(requirement->specifier);
  const auto* files = session.files_of(name);
  if (!specifier || !files) return false;
  const Tags tags = Tags::for_python(python.minor, glibc_minor_of(python.suite));
  return std::ranges::any_of(*files, [&](const IndexFile& file) {
    const auto wheel = parse_wheel_name(file.artifact.filename);
    if (!wheel || file.yanked == Yanked::yes || !tags.rank(*wheel)) return false;
    const auto version = project::Version::parse(wheel->version);
    return version && specifier->contains(*version);
  });
}

// "==1.13.3" → "1.13.3"; "" for anything that isn't one plain version.
std::string pinned_version(const project::Requirement& requirement) {
  const std::string& text = requirement.specifier;
  if (requirement.kind != project::SourceKind::index || !text.starts_with("==") ||
      text.find_first_of(",*=", 2) != std::string::npos)
    return "";
  const auto version = project::Version::parse(std::string_view(text).substr(2));
  return version ? version->text() : "";
}

// uv minds the lower bounds of requires-python only: upper ones are mostly caution of the time.
bool admits_python(const std::string& requires_python, const std::string& minor) {
  std::string lower;
  for (std::size_t at = 0; at < requires_python.size();) {
    const auto end = std::min(requires_python.find(',', at), requires_python.size());
    const std::string clause = requires_python.substr(at, end - at);
    at = end + 1;
    if (clause.find('<') == std::string::npos) lower += (lower.empty() ? "" : ",") + clause;
  }
  const auto specifier = project::SpecifierSet::parse(lower);
  return !specifier || specifier->admits_series(minor);
}

// How one pinned release can be had for one Python, by the index's own list.
enum class Supply { wheel, source, none, unknown };
struct PinSupply {
  Supply supply = Supply::unknown;
  std::string version;
  std::string tags;  // of the wheels for Linux: "cp36, cp37"
};

PinSupply supply_of(const UvSession& session, const std::string& name, const catalog::PythonChoice& python) {
  PinSupply result;
  const auto* requirement = session.request().find(name);
  result.version = requirement == nullptr ? "" : pinned_version(*requirement);
  const auto* files = result.version.empty() ? nullptr : session.files_of(name);
  if (files == nullptr) return result;
  const auto specifier = project::SpecifierSet::parse(requirement->specifier);
  const Tags tags = Tags::for_python(python.minor, glibc_minor_of(python.suite));
  std::set<int> minors;
  bool has_wheel = false;
  bool has_source = false;
  bool listed = false;
  for (const auto& file : *files) {
    const auto wheel = parse_wheel_name(file.artifact.filename);
    const auto version = project::Version::parse(wheel ? wheel->version : source_version(file.artifact.filename));
    if (!version || !specifier || !specifier->contains(*version)) continue;
    listed = true;
    const bool for_this = admits_python(file.requires_python, python.minor);
    if (!wheel) has_source = has_source || for_this;
    if (wheel) has_wheel = has_wheel || (for_this && tags.rank(*wheel).has_value());
    for (const auto& minor : wheel ? pythons_of(*wheel) : std::vector<std::string>())
      minors.insert(std::atoi(minor.c_str() + 2));
  }
  for (const int minor : minors) result.tags += fmt::format("{}cp3{}", result.tags.empty() ? "" : ", ", minor);
  if (listed) result.supply = has_wheel ? Supply::wheel : has_source ? Supply::source : Supply::none;
  return result;
}

// The packages to leave out of the next attempt; none when leaving out can't help.
std::vector<std::string> to_leave_out(const UvSession& session, const UvFailure& failure,
                                      const catalog::PythonChoice& python) {
  if (failure.kind == FailureKind::no_wheels) return {failure.package};
  if (failure.kind == FailureKind::needs_build) return failure.unbuilt;
  if (failure.kind != FailureKind::contradiction) return {};
  std::vector<std::string> names;
  for (const auto& name : failure.unbuilt)
    if (!has_admitted_wheel(session, name, python)) names.push_back(name);
  return names;
}

// A source that was left out took its pin along. With a stand-in that has the pin but no dependencies, a clash between
// it and what others need shows without building anything.
Result<void> look_behind_sources(UvSession& session, Question question, Probe& probe) {
  for (const auto& name : probe.to_build) {
    const auto* requirement = session.request().find(name);
    const std::string version = requirement == nullptr ? "" : pinned_version(*requirement);
    if (version.empty() || question.loosened.contains(name)) continue;
    question.stubs.emplace_back(name, version);
    std::erase(question.without, name);
  }
  if (question.stubs.empty()) return {};
  Answer answer = TRY(session.ask(question));
  if (answer.lock_text || answer.failure.kind != FailureKind::contradiction) return {};
  probe.solution.reset();
  probe.obstacle = answer.failure;
  probe.errors = answer.errors;
  return {};
}

class Prober {
 public:
  Prober(UvSession& session, const catalog::PythonChoice& python, const ProbeOptions& options)
      : m_session(session), m_options(options) {
    m_result.python = python;
    m_question = {.python = python, .loosened = options.loosened, .bounds = options.bounds};
  }

  Result<Probe> run() {
    for (int attempt = 0; attempt < k_most_obstacles && set_patience(); ++attempt) {
      Answer answer = TRY(m_session.ask(m_question));
      if (answer.lock_text) {
        m_result.solution = std::move(answer);
        if (m_result.no_wheels.empty()) TRY(look_behind_sources(m_session, m_question, m_result));
        return std::move(m_result);
      }
      if (leave_out(answer.failure)) continue;
      m_result.obstacle = answer.failure;
      m_result.errors = answer.errors;
      return std::move(m_result);
    }
    m_result.obstacle = UvFailure{.kind = FailureKind::too_slow, .reason = "too many packages have no wheel"};
    return std::move(m_result);
  }

 private:
  // False once the deadline has passed.
  bool set_patience() {
    if (m_options.deadline == std::chrono::steady_clock::time_point::max()) return true;
    const auto left = m_options.deadline - std::chrono::steady_clock::now();
    m_question.patience = std::max(std::chrono::seconds(1), std::chrono::ceil<std::chrono::seconds>(left));
    return left > std::chrono::seconds(0);
  }

  // False when nothing new could be left out.
  bool leave_out(const UvFailure& failure) {
    if (leave_out_nameless_folders(failure)) return true;
    const auto before = m_question.without.size();
    const auto names = to_leave_out(m_session, failure, m_result.python);
    if (names.empty()) return false;
    if (!m_pins_scanned) scan_pins();
    for (const auto& name : names) {
      if (failure.kind == FailureKind::no_wheels) {
        add_without_wheels(failure);
      } else {
        add_by_supply(name);
      }
    }
    return m_question.without.size() > before;
  }

  bool leave_out_nameless_folders(const UvFailure& failure) {
    const bool about_them = failure.kind == FailureKind::needs_build && failure.package.empty() &&
                            m_session.request().has_nameless_folders() &&
                            m_question.nameless == NamelessFolders::included;
    if (!about_them) return false;
    m_question.nameless = NamelessFolders::left_out;
    m_result.to_build.emplace_back(k_own_folder);
    return true;
  }

  // uv names one obstacle at a time; the index tells those of all pins at once.
  void scan_pins() {
    m_pins_scanned = true;
    std::vector<std::string> names;
    for (const auto& package : m_session.request().packages())
      if (!pinned_version(package).empty() && !m_question.loosened.contains(package.name))
        names.push_back(package.name);
    m_session.fetch_files_of(names);
    for (const auto& name : names) {
      const auto supply = supply_of(m_session, name, m_result.python).supply;
      if (supply == Supply::source || supply == Supply::none) add_by_supply(name);
    }
  }

  void add_by_supply(const std::string& name) {
    const PinSupply pin = supply_of(m_session, name, m_result.python);
    if (pin.supply == Supply::none && !m_question.loosened.contains(name)) {
      add_without_wheels({.kind = FailureKind::no_wheels, .package = name, .version = pin.version, .tags = pin.tags});
    } else if (leave_out_once(name)) {
      m_result.to_build.push_back(name);
    }
  }

  void add_without_wheels(const UvFailure& failure) {
    if (leave_out_once(failure.package)) m_result.no_wheels.push_back(failure);
  }

  bool leave_out_once(const std::string& name) {
    if (name.empty() || std::ranges::find(m_question.without, name) != m_question.without.end()) return false;
    m_question.without.push_back(name);
    return true;
  }

  UvSession& m_session;
  const ProbeOptions& m_options;
  Question m_question;
  Probe m_result;
  bool m_pins_scanned = false;
};

}  // namespace

Result<Probe> probe(UvSession& session, const catalog::PythonChoice& python, const ProbeOptions& options) {
  return Prober(session, python, options).run();
}

}  // namespace startrail::lock
