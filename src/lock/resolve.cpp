#include <fmt/format.h>

#include <algorithm>

#include "base/files.hpp"
#include "lock/late_bounds.hpp"
#include "lock/lock.hpp"
#include "lock/locked_answer.hpp"
#include "lock/own_code.hpp"
#include "lock/pass.hpp"
#include "lock/source_wheel.hpp"
#include "lock/uv_session.hpp"

namespace startrail::lock {
namespace {

std::string resolving(std::size_t requirements) {
  return fmt::format("resolving {} requirement{}", requirements, requirements == 1 ? "" : "s");
}

constexpr int k_most_bound_rounds = 3;

// It doesn't build, builds something else, or nothing can be built here; a server that doesn't answer is another
// matter.
bool is_about_the_project(const Error& reason) {
  return reason.code == ErrorCode::refused || reason.code == ErrorCode::corrupt ||
         reason.code == ErrorCode::unsupported;
}

class Resolution {
 public:
  Resolution(UvSession session, const Circumstances& circumstances)
      : m_session(std::move(session)), m_in(circumstances) {}

  Result<Lock> run() {
    Lock lock = TRY(m_in.needs.existing_lock ? take_existing() : resolve_needs());
    TRY(add_own_code(lock));
    return lock;
  }

 private:
  Result<Lock> resolve_needs() {
    m_in.reporter.step(resolving(m_session.request().packages().size()));
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
        const auto fatal = std::ranges::find(late, LateBound::Harm::binary_interface, &LateBound::harm);
        if (fatal != late.end()) return fail(broken_interface(*fatal, lock));
        lock.notes.push_back(
            fmt::format("{}, but the requirements don't allow {}", late.front().reason, late.front().requirement));
        return lock;
      }
      lock = std::move(*bounded);
    }
    lock.notes.insert(lock.notes.end(), notes.begin(), notes.end());
    return lock;
  }

  // A lock whose framework crashes or silently lacks its arrays is none.
  [[nodiscard]] Error broken_interface(const LateBound& bound, const Lock& lock) const {
    const auto other = std::ranges::find(lock.packages, bound.broken, &LockedPackage::name);
    Error reason = error(ErrorCode::refused, fmt::format("{}, and the requirements lead to {} {}", bound.reason,
                                                         bound.broken, other->version));
    for (const auto& name : {bound.package, bound.broken})
      for (const auto& line : m_session.request().origins(name)) reason.with_context(line);
    return std::move(reason)
        .with_hint(fmt::format("take a newer {}, one that is built for {} 2", bound.package, bound.broken))
        .with_hint(fmt::format("or loosen the pins of what needs {} 2, so that `{}` has a resolution", bound.broken,
                               bound.requirement));
  }

  Result<Lock> resolve_under(const std::vector<std::string>& bounds) {
    Found found = TRY(Pass(m_session, m_in, bounds).run());
    TRY(complete(found.lock, found.python, m_in.needs, m_in.choice, m_in.options, m_in.machine));
    auto& notes = found.lock.notes;
    notes.insert(notes.end(), found.notes.begin(), found.notes.end());
    notes.insert(notes.end(), m_session.notes().begin(), m_session.notes().end());
    return std::move(found.lock);
  }

  // Nobody asked for it in so many words, so a project that can't be built still gets its lock.
  Result<void> add_own_code(Lock& lock) {
    if (auto package = TRY(own_package(m_in.needs, lock))) {
      const auto built = build_own(*package, lock);
      if (!built && !is_about_the_project(built.error())) return fail(built.error());
      if (!built) lock.notes.push_back(why_not_installed(*package, built.error()));
      if (built) lock.packages.push_back(std::move(*package));
    }
    const bool there = std::ranges::any_of(lock.packages, [](const LockedPackage& package) {
      return package.kind == PackageKind::directory && package.directory == ".";
    });
    if (!there && !m_in.needs.import_roots.empty())
      lock.packages.push_back(import_path(m_in.needs.import_roots.front()));
    std::ranges::sort(lock.packages, {}, &LockedPackage::name);
    return {};
  }

  Result<fs::path> build_own(const LockedPackage& package, const Lock& lock) {
    const fs::path base = TRY(m_in.options.base.ensure(lock.suite, lock.system_packages, m_in.reporter));
    const SourceBuild build{.suite = lock.suite,
                            .base = base,
                            .lock_directory = m_in.needs.folder,
                            .state_root = m_in.options.state_root,
                            .indexes = m_session.indexes()};
    return build_source_wheel(package, build, m_in.machine, m_in.reporter);
  }

  [[nodiscard]] std::string why_not_installed(const LockedPackage& package, const Error& reason) const {
    const auto& roots = m_in.needs.import_roots;
    const std::string instead =
        roots.empty() ? "its code is used where it lies" : fmt::format("its code is found in `{}`", roots.front());
    return fmt::format("the project itself ({}, {}) isn't installed, {}: {}", package.name,
                       project::to_text(m_in.needs.own_package->origin), instead, reason.message);
  }

  Result<Answer> read_existing() {
    const fs::path file = m_in.needs.folder / m_in.needs.existing_lock->value;
    if (file.filename() != "uv.lock")
      return Answer{
          .lock_text = TRY(base::read_file(file)), .written_in = file.parent_path(), .project = m_in.needs.folder};
    Answer answer = TRY(m_session.convert_uv_lock(file));
    answer.project = m_in.needs.folder;
    if (answer.lock_text) return answer;
    Error reason = error(ErrorCode::refused,
                         fmt::format("uv can't read {}: {}", m_in.needs.existing_lock->value, answer.failure.reason));
    reason.detail = answer.errors;
    return fail(std::move(reason).with_hint("renew it with `uv lock`, or remove it to have the requirements resolved"));
  }

  Result<Lock> take_existing() {
    const Answer answer = TRY(read_existing());
    std::optional<Error> first_failure;
    for (const auto& python : m_in.choice.pythons) {
      auto lock = lock_from(answer, python, m_in.needs, m_session.request());
      if (!lock) {
        if (!first_failure) first_failure = std::move(lock).error();
        continue;
      }
      TRY(complete(*lock, python, m_in.needs, m_in.choice, m_in.options, m_in.machine));
      lock->notes.push_back(fmt::format("the pins are those of {}", m_in.needs.existing_lock->value));
      return std::move(*lock);
    }
    if (first_failure)
      return fail(std::move(*first_failure).with_context("read from " + m_in.needs.existing_lock->value));
    return fail(ErrorCode::internal, "no Python was chosen to resolve for");
  }

  UvSession m_session;
  const Circumstances& m_in;
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
  const Circumstances circumstances{needs, choice, machine, options, reporter};
  Lock lock = TRY(Resolution(std::move(session), circumstances).run());
  TRY(check_on_machine(lock, machine));
  return lock;
}

}  // namespace startrail::lock
