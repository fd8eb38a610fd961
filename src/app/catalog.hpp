// `trail catalog`: what there is to choose from, and what would be chosen.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "app/installation.hpp"
#include "app/lock_project.hpp"
#include "base/json.hpp"
#include "base/reporter.hpp"
#include "catalog/catalog.hpp"
#include "catalog/verified.hpp"

namespace startrail::app {

// Verifications that this state directory holds: store/verified/*.toml. Errors: corrupt (file and line), permission.
[[nodiscard]] Result<std::vector<catalog::Verified>> stored_verifications(const Installation& installation);

// What is known of one row: what came with the program and what this state directory holds, the latter in the former's
// place where it is the same image. Errors: those of `stored_verifications`.
[[nodiscard]] Result<std::vector<catalog::Verified>> verifications_of(const Installation& installation,
                                                                      const catalog::Combination& row);

// Every row, its status by the compiled-in and the stored verifications.
// Errors: corrupt (the user's rows, a stored verification).
[[nodiscard]] Result<std::vector<catalog::Combination>> catalog_rows(const Installation& installation);

// A machine other than this one, as far as choosing goes.
struct DescribedMachine {
  std::optional<std::string> driver;  // "535.183.01", "none"
  std::optional<std::string> gpus;    // "sm_86,sm_90", "8.6", "none"
  [[nodiscard]] bool is_this_one() const { return !driver && !gpus; }
};
// This machine with what is described in place of its own. Errors: usage (what is no version or architecture).
[[nodiscard]] Result<machine::Machine> describe(machine::Machine machine, const DescribedMachine& described);

struct Chosen {
  std::optional<catalog::Choice> choice;
  std::optional<Error> refusal;
  std::vector<std::string> steps;  // that led to either
};
// What `run` would choose for the folder if it had no lock. Asks nobody; only a folder that declares nothing needs the
// map of import names, which is fetched once. Errors: those of reading the project; a refusal is a result.
[[nodiscard]] Result<Chosen> choose_for(const Installation& installation, const machine::Machine& machine,
                                        const LockRequest& request, Reporter& reporter);

// {"combination", "python", "pythons", "build", "bounds", "extra_requirements", "index_urls", "steps", "refusal"}.
[[nodiscard]] Json to_json(const Chosen& chosen);

// The lock of a combination without a project: that framework and what it requires, nothing else. Kept in the state
// directory by name, Python and build, so that a second call needs no network.
// Errors: not_found (no such combination), and those of lock_project.
[[nodiscard]] Result<LockedProject> lock_combination(const Installation& installation, const machine::Machine& machine,
                                                     const std::string& name, const LockRequest& request,
                                                     Phases& phases, Reporter& reporter);

}  // namespace startrail::app
