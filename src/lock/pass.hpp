// One pass over the Pythons on offer: the first that has everything, else the first for which sources build, else why
// none.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/reporter.hpp"
#include "lock/lock.hpp"
#include "lock/probe.hpp"
#include "lock/ways_out.hpp"

namespace startrail::lock {

// What a resolution is about; outlives its passes.
struct Circumstances {
  const project::Requirements& needs;
  const catalog::Choice& choice;
  const machine::Machine& machine;
  const ResolveOptions& options;
  Reporter& reporter;
};

// A solution, and how it came about. The lock has its packages only.
struct Found {
  Lock lock;
  catalog::PythonChoice python;
  std::vector<std::string> notes;
};

class Pass {
 public:
  // `bounds` are constraints beside the project's own and the catalog's.
  Pass(UvSession& session, const Circumstances& circumstances, std::vector<std::string> bounds)
      : m_session(session), m_in(circumstances), m_bounds(std::move(bounds)) {}

  // Errors: refused (with ways out), network, hash_mismatch, and what the sandbox gives.
  [[nodiscard]] Result<Found> run();

 private:
  Result<Found> with_sources(const Probe& complete);
  Result<void> learn_missing_torch(const std::string& package);
  Result<Found> run_with_builds();
  Result<Found> build(const Probe& candidate);
  struct Sources {
    BuildRequirements told;  // what the wheels of those that are compiled against torch say that they need
    std::string
        without_torch;  // a package whose build misses torch, which nothing told before: all is to be asked anew
  };
  Result<Sources> build_sources(const Found& found, const Probe& candidate);
  [[nodiscard]] BuildHelp known_help(const Probe& candidate) const;
  Result<Found> found(const Answer& answer, const catalog::PythonChoice& python, std::vector<std::string> notes) const;
  std::unexpected<Error> refuse(const UvFailure& failure, const Probe& origin);
  std::unexpected<Error> refuse_all();
  void add_index_hint(Error& reason, const UvFailure& failure) const;
  void add_build_hints(Error& reason, const LockedPackage& failed, const Probe& candidate);
  void add_hints(Error& reason, const Loosened& suspects);
  void add_next_releases(Error& reason);

  UvSession& m_session;
  const Circumstances& m_in;
  std::vector<std::string> m_bounds;
  std::vector<Probe> m_probes;
  BuildHelp m_learnt;  // which packages' builds missed torch
  std::vector<std::string> m_learnt_notes;
};

}  // namespace startrail::lock
