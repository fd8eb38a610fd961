// One isolated process tree: an OCI bundle run by runc or crun, as root or as an ordinary user.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json_fwd.hpp"
#include "base/process.hpp"
#include "base/units.hpp"
#include "machine/gpu/cdi.hpp"
#include "machine/machine.hpp"

namespace startrail::sandbox {

enum class Mode {
  root,      // caller is root: inside is an unprivileged uid of the run's own, workspace and personal are idmapped
  rootless,  // ordinary caller: user namespace, inside is the caller's own uid
  none,      // --isolation none: no container at all, the user's own word
};

// How this host can isolate, found once per call. Errors: unsupported, with the ways out
// (install runc, allow user namespaces, AppArmor profile, `--isolation none`).
struct Support {
  Mode mode = Mode::none;
  std::filesystem::path runtime;  // absolute path of runc or crun
  std::string runtime_name, runtime_version;
  bool cgroup_limits = false;  // limits are the kernel's, by cgroup; else rlimits and the supervisor's watch
  std::string limits_by;       // one sentence for the record
};
[[nodiscard]] Result<Support> probe(const machine::Machine& machine);

enum class Access { read_only, read_write };
enum class Ownership {
  as_it_is,
  caller,  // files belong to the caller outside and to the container's user inside (idmapped for root)
};

// Which file a path led to when it was looked at, and whose it was.
struct Place {
  std::uint64_t device = 0, inode = 0;
  unsigned owner = 0;
  bool operator==(const Place&) const = default;
};
// Errors: not_found, permission.
[[nodiscard]] Result<Place> place_of(const std::filesystem::path& path);
[[nodiscard]] Result<Place> place_of(const base::Fd& opened, const std::filesystem::path& name);

struct Mount {
  std::filesystem::path source;
  std::string target;
  Access access = Access::read_write;
  Ownership ownership = Ownership::as_it_is;
  std::optional<Place> expected;  // what `source` must still be when it is mounted
};

struct Limits {
  std::optional<Bytes> memory;
  std::optional<double> cpus;
  std::optional<int> pids;
  Bytes shm_size{0};  // 0: half of the memory limit or of the machine's memory
};

enum class Network { host, none };

// What becomes of the scratch folder after the end.
enum class Scratch {
  kept,       // a later container goes on with it
  discarded,  // nobody reads it again, so it needn't reach the disk
};

// Whose the files of the layers are inside.
enum class LayerOwner {
  root,            // as they are stored: for root's containers nobody in there may change them
  container_user,  // who may replace them, in this container's scratch; rootless it is so anyway
};

struct ContainerSpec {
  std::string id;                             // unique; names the cgroup and the runtime's state
  std::vector<std::filesystem::path> layers;  // lower directories, topmost first; never written
  std::filesystem::path
      scratch;  // a directory of ours: overlay upper/work, bundle, runtime state; removed by the owner
  std::vector<std::string> argv;
  base::Environment environment;  // complete; nothing is inherited
  std::string directory = "/";
  std::string hostname = "startrail";
  std::vector<Mount> mounts;
  Limits limits;
  Network network = Network::host;
  machine::CdiEdits gpus;  // empty: none
  Scratch scratch_after = Scratch::kept;
  std::filesystem::path owner_reference;  // root callers: whose files `Ownership::caller` mounts hold (the workspace)
  LayerOwner layer_owner = LayerOwner::root;
  std::string identity_of;  // root callers: containers with one scratch folder need one uid; "": this id's own
};
[[nodiscard]] Json to_json(const ContainerSpec& spec);
[[nodiscard]] Result<ContainerSpec> container_spec_from_json(const Json& json);

// Who runs inside, and how its files map; for the record.
struct Identity {
  unsigned uid = 0, gid = 0;  // inside
  unsigned host_uid = 0, host_gid = 0;
  std::string user_name;  // what getpwuid says inside
  std::string how;        // "uid 1734205, workspace idmapped to uid 0"
};

// Descriptors the container's process gets. -1: /dev/null.
struct Stdio {
  int input = -1, output = -1, errors = -1;
};

struct Ended {
  int exit_code = 0;
  int signal = 0;
  bool out_of_memory = false;  // the cgroup's OOM killer acted
  bool pids_limit_hit = false;
  std::optional<Bytes> peak_memory;
  std::vector<pid_t> survivors;  // Mode::none: what the command left running and this user may not kill (sudo's)
};

// A started container. All of its mounts live in this process's mount namespace and vanish with it;
// its init exits, taking every process of its PID namespace along, when this process dies
// (a pipe that init watches: see src/init/README.md).
class Container {
 public:
  // With Mode::none: `argv` runs under the same init without namespaces, layers or mounts; `directory` is the host's.
  // Enters new namespaces first, so the calling process must be single-threaded, and is a
  // dedicated one (the supervisor, or the child that `run_contained` starts).
  // Errors: unsupported, not_found (a layer, a mount's source), permission, conflict (a source that isn't what it was),
  // internal (the runtime's own words in detail).
  [[nodiscard]] static Result<Container> start(const Support& support, const ContainerSpec& spec, Stdio stdio);

  Container(Container&&) noexcept;
  Container& operator=(Container&&) noexcept;
  ~Container();

  [[nodiscard]] pid_t pid() const;           // of init, as this process sees it
  [[nodiscard]] int pid_descriptor() const;  // pidfd: readable when init has ended
  [[nodiscard]] const Identity& identity() const;
  // What differs from what was asked for, one clause each ("files written outside the volumes are kept in memory: …").
  [[nodiscard]] const std::vector<std::string>& notes() const;
  // To the command itself (init forwards it to the command's process group).
  [[nodiscard]] Result<void> signal(int signal);
  // SIGKILL to init, and so to everything inside.
  void kill();
  // Waits for the end (reaps init), then removes the runtime's state and cgroup. Errors: unsupported, when the kernel
  // refused a restriction: the command was never started then.
  [[nodiscard]] Result<Ended> wait();
  // Resident memory of everything inside: by cgroup, else summed over the PID namespace.
  [[nodiscard]] Bytes memory_now() const;
  [[nodiscard]] int process_count() const;  // init not counted
  // The watch on memory where no control group does it: kills everything and returns true once the limit is
  // exceeded; `wait` then says out_of_memory. To be called a few times a second by whoever doesn't sit in `wait`,
  // which does it itself. Does nothing, at no cost, where the kernel enforces the limit or there is none.
  bool enforce_memory_limit();

  struct State;  // of container.cpp

 private:
  explicit Container(std::unique_ptr<State> state);
  std::unique_ptr<State> m_state;
};

// Runs one container to its end in a child process (this program's `contain` verb) and collects its output;
// safe from threaded callers. `on_error_line` as in base::Command.
[[nodiscard]] Result<base::ProcessResult> run_contained(const Support& support, const ContainerSpec& spec,
                                                        const std::function<void(std::string_view)>& on_error_line = {},
                                                        std::optional<std::chrono::milliseconds> timeout = {});
// The body of that verb: reads the request from `file`, runs, returns the command's exit code.
[[nodiscard]] int contain_main(const std::filesystem::path& file);

// Removes what a dead supervisor's container left: cgroup, runtime state (mounts went with its namespace).
void remove_leftovers(const std::string& id, const std::filesystem::path& scratch);

}  // namespace startrail::sandbox
