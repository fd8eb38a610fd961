// Where one run lies on this host, and what was asked for.
#pragma once

#include <filesystem>

#include "base/state_paths.hpp"
#include "instance/place.hpp"
#include "machine/machine.hpp"
#include "run/run.hpp"

namespace startrail::supervise {

struct RunPlace {
  base::StatePaths paths;
  std::filesystem::path directory;  // paths.runs()/<id>
  machine::HostPaths host;
  run::RunSpec spec;
  // An instance's is its own, and outlives the run.
  [[nodiscard]] std::filesystem::path scratch() const {
    return spec.instance ? instance::place_of(paths, spec.instance->name).scratch() : directory / run::k_scratch_folder;
  }
};

}  // namespace startrail::supervise
