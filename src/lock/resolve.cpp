#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/files.hpp"
#include "lock/build_attempts.hpp"
#include "lock/lock.hpp"
#include "lock/lock_text.hpp"
#include "lock/locked_answer.hpp"
#include "lock/probe.hpp"
#include "lock/refusal.hpp"
#include "lock/suite.hpp"

namespace startrail::lock {
namespace {

// Pythons that no base has, asked only to tell a clash of Pythons from a clash of packages.
constexpr std::array k_elsewhere{"3.8", "3.7", "3.10", "3.12", "3.6"};
constexpr std::size_t k_most_hints = 3;
constexpr int k_most_rounds = 4;

bool ends_everything(const UvFailure& failure) {
  return failure.kind == FailureKind::git || failure.kind == FailureKind::network ||
         failure.kind == FailureKind::unknown_package;
}

class Resolution {
 public:
  Resolution(UvSession session, const project::Requirements& needs, const catalog::Choice& choice,
             const ResolveOptions& options, Reporter& reporter)
      : m_session(std::move(session)), m_needs(needs), m_choice(choice), m_options(options), m_reporter(reporter) {}

  Result<Lock> run() {
    if (m_needs.existing_lock) return take_existing();
    m_reporter.step(fmt::format("resolving {} requirements", m_session.request().packages().size()));
    for (const auto& python : m_choice.pythons) {
      m_probes.push_back(TRY(probe(m_session, python, {})));
      const Probe& latest = m_probes.back();
      if (latest.complete()) return finish(*latest.solution, python);
      if (latest.obstacle && ends_everything(*latest.obstacle)) return refuse(*latest.obstacle, latest);
    }
    for (const auto& candidate : m_probes) {
      if (!candidate.buildable()) continue;
      auto built = TRY(resolve_with_builds(m_session, candidate, m_reporter));
      for (auto& note : built.notes) m_notes.push_back(std::move(note));
      if (built.answer.lock_text) return finish(built.answer, candidate.python);
      if (ends_everything(built.answer.failure)) return refuse(built.answer.failure, candidate);
      if (!m_build_failure) m_build_failure = {std::move(built.answer), candidate.python};
    }
    return refuse_all();
  }

 private:
  struct BuildFailure {
    Answer answer;
    catalog::PythonChoice python;
  };

  Result<Lock> finish(const Answer& answer, const catalog::PythonChoice& python) {
    Lock lock = TRY(lock_from(answer, python, m_needs, m_session.request()));
    TRY(complete(lock, python, m_needs, m_choice, m_options));
    if (!m_probes.empty() && m_probes.front().python.minor != python.minor)
      m_notes.push_back(fmt::format("Python {} was taken instead of {}: {}", python.minor,
                                    m_probes.front().python.minor, why_not(m_probes.front())));
    m_notes.insert(m_notes.end(), m_session.notes().begin(), m_session.notes().end());
    lock.notes.insert(lock.notes.end(), m_notes.begin(), m_notes.end());
    return lock;
  }

  static std::string why_not(const Probe& probe) {
    if (!probe.no_wheels.empty())
      return fmt::format("{} {} has no wheel for it", probe.no_wheels.front().package, probe.no_wheels.front().version);
    if (!probe.to_build.empty())
      return fmt::format("{} would have to be built for it", fmt::join(probe.to_build, ", "));
    return "the requirements don't resolve on it";
  }

  Result<Lock> take_existing();

  // What uv makes of the requirements without these specifiers; packages that then lack wheels are loosened too.
  std::optional<std::string> way_out_by(Loosened loosened) {
    for (const auto& python : m_choice.pythons) {
      for (int round = 0; round < k_most_rounds; ++round) {
        const auto wider = probe(m_session, python, loosened);
        if (!wider || !wider->solution) break;
        if (wider->complete()) {
          const auto lock = parse_lock(*wider->solution->lock_text, "uv's answer", python.minor);
          return lock ? way_out(*lock, loosened, m_session.request()) : std::nullopt;
        }
        const auto before = loosened.size();
        for (const auto& failure : wider->no_wheels) loosened.merge(suspects(failure, m_session.request()));
        for (const auto& name : wider->to_build) loosened.merge(suspects({.package = name}, m_session.request()));
        if (loosened.size() == before) break;
      }
    }
    return std::nullopt;
  }

  // Every hint is one that uv has confirmed: each suspect alone, and only if none will do, all of them together.
  void add_ways_out(Error& reason, const Loosened& loosened) {
    if (loosened.empty()) return;
    const auto before = reason.hints.size();
    if (loosened.size() > 1)
      for (const auto& name : loosened)
        if (auto hint = reason.hints.size() < k_most_hints ? way_out_by({name}) : std::nullopt)
          reason.hints.push_back(std::move(*hint));
    if (reason.hints.size() > before) return;
    if (auto hint = way_out_by(loosened)) reason.hints.push_back(std::move(*hint));
  }

  std::unexpected<Error> refuse(const UvFailure& failure, const Probe& origin) {
    Error reason = refusal(failure, m_session.request(), origin.python.minor);
    reason.detail = origin.errors;
    if (reason.code == ErrorCode::refused && failure.kind != FailureKind::unknown_package)
      add_ways_out(reason, suspects(failure, m_session.request()));
    return fail(std::move(reason));
  }

  std::unexpected<Error> refuse_all();

  UvSession m_session;
  const project::Requirements& m_needs;
  const catalog::Choice& m_choice;
  const ResolveOptions& m_options;
  Reporter& m_reporter;
  std::vector<Probe> m_probes;
  std::optional<BuildFailure> m_build_failure;
  std::vector<std::string> m_notes;
};

Result<Lock> Resolution::take_existing() {
  const fs::path file = m_needs.folder / m_needs.existing_lock->value;
  Answer answer{.lock_text = std::nullopt, .written_in = file.parent_path(), .project = m_needs.folder};
  if (file.filename() == "uv.lock") {
    answer = TRY(m_session.convert_uv_lock(file));
    if (!answer.lock_text)
      return fail(error(ErrorCode::refused,
                        fmt::format("uv can't read {}: {}", file.filename().string(), answer.failure.reason))
                      .with_hint("renew it with `uv lock`, or remove it to have the requirements resolved"));
  } else {
    answer.lock_text = TRY(base::read_file(file));
  }
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
  if (first_failure) return fail(std::move(*first_failure));
  return fail(ErrorCode::refused, "there is no Python to resolve for");
}

std::unexpected<Error> Resolution::refuse_all() {
  // A clash between packages is the truer reason than a wheel that one Python lacks.
  for (const auto& probe : m_probes)
    if (probe.obstacle && probe.no_wheels.empty()) return refuse(*probe.obstacle, probe);
  if (m_build_failure) {
    const auto& failed = *m_build_failure;
    Error reason = refusal(failed.answer.failure, m_session.request(), failed.python.minor);
    reason.detail = failed.answer.errors;
    add_ways_out(reason, suspects(failed.answer.failure, m_session.request()));
    return fail(std::move(reason));
  }
  std::optional<std::string> elsewhere;
  for (const char* minor : k_elsewhere) {
    const auto asked = probe(m_session, {.minor = minor, .suite = "bullseye", .remark = ""}, {});
    if (!asked) break;
    if (asked->obstacle && asked->no_wheels.empty() && asked->obstacle->kind == FailureKind::contradiction)
      return refuse(*asked->obstacle, *asked);
    if (asked->complete() && !elsewhere) elsewhere = minor;
    if (elsewhere) break;
  }
  for (const auto& probe : m_probes)
    if (probe.obstacle && probe.obstacle->kind == FailureKind::contradiction) return refuse(*probe.obstacle, probe);
  if (m_probes.empty()) return fail(ErrorCode::refused, "there is no Python to resolve for");
  Error reason = no_python_refusal(m_probes, m_session.request(), elsewhere);
  Loosened loosened;
  for (const auto& probe : m_probes)
    for (const auto& failure : probe.no_wheels) loosened.merge(suspects(failure, m_session.request()));
  add_ways_out(reason, loosened);
  return fail(std::move(reason));
}

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
