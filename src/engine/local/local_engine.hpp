// The engine that runs on this machine: one supervisor process per run.
#pragma once

#include <filesystem>
#include <memory>

#include "base/state_paths.hpp"
#include "run/run.hpp"

namespace startrail::engine::local {

// `program` is this executable (/proc/self/exe), started again as `trail supervise`.
[[nodiscard]] std::unique_ptr<run::Engine> make_engine(const base::StatePaths& paths, std::filesystem::path program);

}  // namespace startrail::engine::local
