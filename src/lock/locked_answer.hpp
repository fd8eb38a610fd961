// uv's answer as a lock: paths made relative to the project, [tool.startrail]'s facts filled in.
#pragma once

#include "catalog/catalog.hpp"
#include "lock/lock.hpp"
#include "lock/uv_session.hpp"

namespace startrail::lock {

// Errors: corrupt (uv's text isn't what it should be), refused (a file that --hash doesn't allow, an editable outside
// of the project folder).
[[nodiscard]] Result<Lock> lock_from(const Answer& answer, const catalog::PythonChoice& python,
                                     const project::Requirements& needs, const Request& request);

// Inputs, base, build, framework and what the catalog and the locked libraries say of it.
[[nodiscard]] Result<void> complete(Lock& lock, const catalog::PythonChoice& python, const project::Requirements& needs,
                                    const catalog::Choice& choice, const ResolveOptions& options,
                                    const machine::Machine& machine);

// What resolving starts from, as one digest: packages, constraints, indexes, Python, system packages.
[[nodiscard]] std::string settings_digest(const project::Requirements& needs);

}  // namespace startrail::lock
