// A run: its specification, its states, its record on disk, and the engines that execute it.
// runs/<id>/ holds everything; state.db only makes listing fast.
#pragma once

#include "run/cause_of_death.hpp"  // IWYU pragma: export
#include "run/engine.hpp"          // IWYU pragma: export
#include "run/follow.hpp"          // IWYU pragma: export
#include "run/git_facts.hpp"       // IWYU pragma: export
#include "run/log.hpp"             // IWYU pragma: export
#include "run/record.hpp"          // IWYU pragma: export
#include "run/snapshot.hpp"        // IWYU pragma: export
#include "run/state.hpp"           // IWYU pragma: export
#include "run/store.hpp"           // IWYU pragma: export
