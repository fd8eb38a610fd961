// Instances: a folder's environment to work in, from `trail up` to `trail rm`.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "app/installation.hpp"
#include "app/phases.hpp"
#include "app/run_project.hpp"
#include "base/json.hpp"
#include "base/reporter.hpp"
#include "instance/record.hpp"
#include "instance/service.hpp"
#include "run/run.hpp"

namespace startrail::app {

enum class Renew { no, yes };

struct UpRequest {
  std::optional<std::string> name;          // else the folder's
  RunRequest run;                           // its command and isolation aren't asked; what isn't given stays as it was
  std::optional<sandbox::Network> network;  // instead of run.network
  Renew renew = Renew::no;                  // a new image from the project, and nothing kept of what was changed inside
};

struct Up {
  instance::Record record;
  bool was_up = false;
  bool included_now = false;  // the user's ssh configuration got its line
  std::filesystem::path ssh_configuration;
  std::string no_ssh;  // why one can't enter it by SSH, "" when one can
};
// Returns when its commands can be started. One that is up is left as it is. Errors: those of prepare_run; conflict
// (the name is another folder's instance), cancelled (it ended at once).
[[nodiscard]] Result<Up> up(const Installation& installation, UpRequest request, Phases& phases, Reporter& reporter);

// Stops it, with everything in it; one that is down already is fine. Errors: not_found.
[[nodiscard]] Result<instance::Record> down(const Installation& installation, const std::string& name,
                                            std::optional<int> grace_seconds, Reporter& reporter);

enum class Force { no, yes };  // yes: also one that is up, or whose record is damaged
[[nodiscard]] Result<void> remove_instance(const Installation& installation, const std::string& name, Force force,
                                           Reporter& reporter);

// The name as given, else that of the present folder's only instance. Errors: not_found, invalid_input (several).
[[nodiscard]] Result<std::string> instance_name(const Installation& installation,
                                                const std::optional<std::string>& given);

struct ListedInstance {
  instance::Record record;
  std::optional<run::State> state;  // of its life; none while it is down
  std::optional<base::Time> since;
};
// `live` are the live runs.
[[nodiscard]] std::vector<ListedInstance> list_instances(const Installation& installation, run::RunStore& store,
                                                         const std::vector<run::RunStore::Listed>& live);
[[nodiscard]] Json to_json(const std::vector<ListedInstance>& instances);

// To the service inside. Errors: not_found, and conflict when it is down, with the way to start it.
[[nodiscard]] Result<instance::Connection> connect(const base::StatePaths& paths, const std::string& name);

}  // namespace startrail::app
