#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/files.hpp"
#include "lock/build_attempts.hpp"
#include "lock/late_bounds.hpp"
#include "lock/lock.hpp"
#include "lock/locked_answer.hpp"
#include "lock/probe.hpp"
#include "lock/refusal.hpp"
#include "lock/ways_out.hpp"

namespace startrail::lock {
namespace {

// Pythons that no base has, asked only to tell a clash of Pythons from a clash of packages.
constexpr std::array k_elsewhere{"3.8", "3.7", "3.10", "3.12"};
constexpr std::chrono::seconds k_longest_diagnosis{40};
constexpr int k_most_bound_rounds = 3;

using Clock = std::chrono::steady_clock;

bool ends_everything(const UvFailure& failure) {
  return failure.kind == FailureKind::git || failure.kind == FailureKind::network ||
         failure.kind == FailureKind::unknown_package || failure.kind == FailureKind::too_slow;
}

// A solution, and how it came about.
struct Found {
  Answer answer;
  catalog::PythonChoice python;
  std::vector<std::string> notes;
};

std::string why_not(const Probe& probe) {
  if (!probe.no_wheels.empty())
    return fmt::format("{} {} has no wheel for it", probe.no_wheels.front().package, probe.no_wheels.front().version);
  if (!probe.to_build.empty()) return fmt::format("{} would have to be built for it", fmt::join(probe.to_build, ", "));
  return "the requirements don't resolve on it";
}

// One pass over the Pythons: without builds on all of them, then with builds where only sources are missing.
class Pass {
 public:
  Pass(UvSession& session, const std::vector<catalog::PythonChoice>& pythons, std::vector<std::string> bounds,
       Reporter& reporter)
      : m_session(session), m_pythons(pythons), m_bounds(std::move(bounds)), m_reporter(reporter) {}

  Result<Found> run() {
    for (const auto& python : m_pythons) {
      m_probes.push_back(TRY(probe(m_session, python, {.bounds = m_bounds})));
      const Probe& latest = m_probes.back();
      if (latest.complete()) return found(*latest.solution, python, {});
      if (latest.obstacle && ends_everything(*latest.obstacle)) return refuse(*latest.obstacle, latest);
    }
    return run_with_builds();
  }

 private:
  Result<Found> run_with_builds() {
    auto candidates = m_probes;
    std::erase_if(candidates, [](const Probe& candidate) { return !candidate.buildable(); });
    std::ranges::stable_sort(candidates, {}, [](const Probe& candidate) { return candidate.to_build.size(); });
    std::optional<std::unexpected<Error>> first_refusal;
    for (const auto& candidate : candidates) {
      auto built = TRY(resolve_with_builds(m_session, candidate, m_bounds, m_reporter));
      if (built.answer.lock_text) return found(built.answer, candidate.python, std::move(built.notes));
      if (!first_refusal || ends_everything(built.answer.failure)) {
        Probe failed = candidate;
        failed.errors = built.answer.errors;
        first_refusal = refuse(built.answer.failure, failed);
      }
      if (ends_everything(built.answer.failure)) break;
    }
    if (first_refusal) return std::move(*first_refusal);
    return refuse_all();
  }

  Result<Found> found(const Answer& answer, const catalog::PythonChoice& python, std::vector<std::string> notes) const {
    const Probe& first = m_probes.front();
    if (first.python.minor != python.minor)
      notes.push_back(
          fmt::format("Python {} was taken instead of {}: {}", python.minor, first.python.minor, why_not(first)));
    return Found{.answer = answer, .python = python, .notes = std::move(notes)};
  }

  std::unexpected<Error> refuse(const UvFailure& failure, const Probe& origin) {
    m_refusing_since = Clock::now();
    Error reason = refusal(failure, m_session.request(), origin.python.minor);
    reason.detail = origin.errors;
    if (failure.kind == FailureKind::git) add_index_hint(reason, failure);
    if (reason.code == ErrorCode::refused && failure.kind != FailureKind::unknown_package)
      ways_out().add_hints(reason, suspects(failure, m_session.request()));
    return fail(std::move(reason));
  }

  // A repository that can't be reached may have releases in the index.
  void add_index_hint(Error& reason, const UvFailure& failure) {
    const std::string name = project_of_repository(failure, m_session.request());
    if (name.empty()) return;
    if (index_page(m_session.default_index(), name))
      reason.with_hint(fmt::format(
          "or write {} in its place: the package index has a project of that name, if it is the same", name));
  }

  std::unexpected<Error> refuse_all() {
    if (m_probes.empty()) return fail(ErrorCode::internal, "no Python was chosen to resolve for");
    m_refusing_since = Clock::now();
    // A clash between packages is the truer reason than a wheel that one Python lacks.
    for (const auto& probe : m_probes)
      if (probe.obstacle && probe.no_wheels.empty()) return refuse(*probe.obstacle, probe);
    std::optional<std::string> elsewhere;
    const auto deadline = m_refusing_since + k_longest_diagnosis / 2;
    for (const char* minor : k_elsewhere) {
      if (elsewhere || Clock::now() > deadline) break;
      const auto asked = probe(m_session, {.minor = minor, .suite = "bullseye", .remark = ""},
                               {.bounds = m_bounds, .deadline = deadline});
      if (!asked) break;
      const bool clash = asked->obstacle && asked->obstacle->kind == FailureKind::contradiction;
      if (clash && asked->no_wheels.empty()) return refuse(*asked->obstacle, *asked);
      if (asked->complete()) elsewhere = minor;
    }
    for (const auto& probe : m_probes)
      if (probe.obstacle && probe.obstacle->kind == FailureKind::contradiction) return refuse(*probe.obstacle, probe);
    Error reason = no_python_refusal(m_probes, m_session.request(), elsewhere);
    Loosened loosened;
    for (const auto& probe : m_probes)
      for (const auto& failure : probe.no_wheels) loosened.merge(suspects(failure, m_session.request()));
    ways_out().add_hints(reason, loosened);
    return fail(std::move(reason));
  }

  WayFinder ways_out() { return {m_session, m_pythons, m_refusing_since + k_longest_diagnosis}; }

  UvSession& m_session;
  const std::vector<catalog::PythonChoice>& m_pythons;
  std::vector<std::string> m_bounds;
  Reporter& m_reporter;
  std::vector<Probe> m_probes;
  Clock::time_point m_refusing_since = Clock::now();
};

class Resolution {
 public:
  Resolution(UvSession session, const project::Requirements& needs, const catalog::Choice& choice,
             const ResolveOptions& options, Reporter& reporter)
      : m_session(std::move(session)), m_needs(needs), m_choice(choice), m_options(options), m_reporter(reporter) {}

  Result<Lock> run() {
    if (m_needs.existing_lock) return take_existing();
    m_reporter.step(fmt::format("resolving {} requirements", m_session.request().packages().size()));
    Lock lock = TRY(resolve_under({}));
    std::vector<std::string> bounds;
    std::vector<std::string> notes;
    for (int round = 0; round < k_most_bound_rounds; ++round) {
      const auto late = late_bounds(lock);
      if (late.empty()) break;
      for (const auto& bound : late) {
        bounds.push_back(bound.requirement);
        notes.push_back(fmt::format("{} was added: {}", bound.requirement, bound.reason));
      }
      auto bounded = resolve_under(bounds);
      if (!bounded) {
        lock.notes.push_back(
            fmt::format("{}, but the requirements don't allow {}", late.front().reason, late.front().requirement));
        return lock;
      }
      lock = std::move(*bounded);
    }
    lock.notes.insert(lock.notes.end(), notes.begin(), notes.end());
    return lock;
  }

 private:
  Result<Lock> resolve_under(const std::vector<std::string>& bounds) {
    const Found found = TRY(Pass(m_session, m_choice.pythons, bounds, m_reporter).run());
    Lock lock = TRY(lock_from(found.answer, found.python, m_needs, m_session.request()));
    TRY(complete(lock, found.python, m_needs, m_choice, m_options));
    for (const auto* list : {&found.notes, &m_session.notes()})
      lock.notes.insert(lock.notes.end(), list->begin(), list->end());
    return lock;
  }

  Result<Answer> read_existing() {
    const fs::path file = m_needs.folder / m_needs.existing_lock->value;
    if (file.filename() != "uv.lock")
      return Answer{
          .lock_text = TRY(base::read_file(file)), .written_in = file.parent_path(), .project = m_needs.folder};
    Answer answer = TRY(m_session.convert_uv_lock(file));
    answer.project = m_needs.folder;
    if (answer.lock_text) return answer;
    Error reason = error(ErrorCode::refused,
                         fmt::format("uv can't read {}: {}", m_needs.existing_lock->value, answer.failure.reason));
    reason.detail = answer.errors;
    return fail(std::move(reason).with_hint("renew it with `uv lock`, or remove it to have the requirements resolved"));
  }

  Result<Lock> take_existing() {
    const Answer answer = TRY(read_existing());
    std::optional<Error> first_failure;
    for (const auto& python : m_choice.pythons) {
      auto lock = lock_from(answer, python, m_needs, m_session.request());
      if (!lock) {
        if (!first_failure) first_failure = std::move(lock).error();
        continue;
      }
      TRY(complete(*lock, python, m_needs, m_choice, m_options));
      lock->notes.push_back(fmt::format("the pins are those of {}", m_needs.existing_lock->value));
      return std::move(*lock);
    }
    if (first_failure) return fail(std::move(*first_failure).with_context("read from " + m_needs.existing_lock->value));
    return fail(ErrorCode::internal, "no Python was chosen to resolve for");
  }

  UvSession m_session;
  const project::Requirements& m_needs;
  const catalog::Choice& m_choice;
  const ResolveOptions& m_options;
  Reporter& m_reporter;
};

// `choose` saw the declared framework; one that comes with another package is known only now.
Result<void> check_on_machine(const Lock& lock, const machine::Machine& machine) {
  if (lock.framework.empty() || lock.build == project::Build::cpu) return {};
  const auto* row = catalog::find(lock.framework, lock.framework_version);
  if (row == nullptr) return {};
  return catalog::check(*row, lock.framework_version, machine, k_lock_file_name);
}

}  // namespace

Result<Lock> resolve(const project::Requirements& needs, const catalog::Choice& choice, const machine::Machine& machine,
                     const ResolveOptions& options, Reporter& reporter) {
  auto session = TRY(UvSession::open(needs, choice, machine, options, reporter));
  Lock lock = TRY(Resolution(std::move(session), needs, choice, options, reporter).run());
  TRY(check_on_machine(lock, machine));
  return lock;
}

}  // namespace startrail::lock
