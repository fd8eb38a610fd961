// instance.json: what an instance is, from `up` to `rm`.
#pragma once

#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "instance/place.hpp"
#include "run/record.hpp"

namespace startrail::instance {

struct Record {
  std::string name;
  std::string key;  // random: the uid inside hangs on it
  base::Time created;
  std::string run_id;  // its present life, or the last one
  std::string user;    // who one is inside
  bool has_ssh = false;
  run::RunSpec spec;  // what it was asked to be: image, limits, mounts, variables, GPUs; begins the next life
};

// Errors: not_found (no such instance, with the way to make it), corrupt.
[[nodiscard]] Result<Record> read_record(const base::StatePaths& paths, const std::string& name);
[[nodiscard]] Result<void> write_record(const base::StatePaths& paths, const Record& record,
                                        base::Durable durable = base::Durable::no);
[[nodiscard]] bool exists(const base::StatePaths& paths, const std::string& name);
// By name. Those that can't be read are left out.
[[nodiscard]] std::vector<Record> list_records(const base::StatePaths& paths);

}  // namespace startrail::instance
