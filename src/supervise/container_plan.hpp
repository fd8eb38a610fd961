// From what was asked for to what the sandbox starts.
#pragma once

#include "base/error.hpp"
#include "machine/machine.hpp"
#include "sandbox/sandbox.hpp"
#include "supervise/run_place.hpp"

namespace startrail::supervise {

struct ContainerPlan {
  sandbox::Support support;
  sandbox::ContainerSpec spec;
};

// Finds the image, makes the volumes, computes the GPUs' edits. With isolation none the same command, environment
// and places, as they are called on the host (see host_environment.hpp).
// Errors: those of image::open, volume::plan, machine::cdi_edits and sandbox::probe.
[[nodiscard]] Result<ContainerPlan> plan_container(const RunPlace& place, const machine::Machine& machine);

}  // namespace startrail::supervise
