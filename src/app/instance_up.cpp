// `trail up`.
#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "app/instance_files.hpp"
#include "app/instance_life.hpp"
#include "app/instances.hpp"
#include "app/list_runs.hpp"
#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "image/instance_layer.hpp"
#include "instance/ssh_config_file.hpp"
#include "lock/lock.hpp"

namespace startrail::app {
namespace {

constexpr auto k_look_again = std::chrono::milliseconds(2);
constexpr int k_looks_until_its_state_is_read = 25;
// What a running instance's first process needs to answer, and much more.
constexpr auto k_patience = std::chrono::seconds(20);

Result<std::string> random_key() {
  std::array<std::byte, 8> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    return fail(base::errno_error("cannot get random numbers", errno));
  return base::to_hex(bytes);
}

Error belongs_elsewhere(const instance::Record& record, const fs::path& folder) {
  return base::error(ErrorCode::conflict,
                     fmt::format("{} is the instance of {}", record.name, record.spec.workspace.string()))
      .with_hint(
          fmt::format("start it: trail up -C {} {}", base::shell_quote(record.spec.workspace.string()), record.name))
      .with_hint(fmt::format("or give that of {} another name: trail up {}-2", folder.string(), record.name));
}

bool asks_for_something(const UpRequest& request) {
  const RunRequest& run = request.run;
  return run.memory || run.cpus || run.pids || run.shm_size || run.grace_seconds || run.gpus || run.image ||
         !run.mounts.empty() || !run.environment.empty() || request.network;
}

// What was asked for before holds where nothing is said now.
void keep_options(UpRequest& request, const run::RunSpec& before) {
  RunRequest& run = request.run;
  if (!run.memory) run.memory = before.limits.memory;
  if (!run.cpus) run.cpus = before.limits.cpus;
  if (!run.pids) run.pids = before.limits.pids;
  if (!run.shm_size && before.limits.shm_size.count != 0) run.shm_size = before.limits.shm_size;
  if (!run.grace_seconds) run.grace_seconds = before.stop_grace_seconds;
  if (!run.gpus && !before.gpus_requested_all)
    run.gpus = before.gpus.empty() ? GpuRequest{.kind = GpuRequest::Kind::none}
                                   : GpuRequest{.kind = GpuRequest::Kind::list, .indexes = before.gpus};
  if (run.mounts.empty()) run.mounts = before.extra_mounts;
  for (const auto& [name, value] : before.environment) run.environment.emplace(name, value);
  if (!request.network) request.network = before.network;
}

class Rising {
 public:
  Rising(const Installation& installation, UpRequest& request, Phases& phases, Reporter& reporter)
      : m_installation(installation), m_request(request), m_phases(phases), m_reporter(reporter) {}

  Result<Up> rise() {
    TRY(prepare_state(m_installation));
    m_folder = TRY(project_folder(m_request.run.project.folder));
    m_record.name = m_request.name.value_or(instance::name_for_folder(m_folder));
    TRY(instance::check_name(m_record.name));
    TRY(base::make_directories(m_installation.paths.instances(), 0700));
    TRY(base::make_directories(place().folder, 0700));
    const auto lock = TRY(base::FileLock::acquire(place().lock_file()));
    const bool is_new = !instance::exists(m_installation.paths, m_record.name);
    auto done = start(is_new);
    // Nothing that the user hears of is left of one that never came to be.
    if (!done && !instance::exists(m_installation.paths, m_record.name)) [[maybe_unused]]
      const auto removed = base::remove_tree(place().folder);
    return done;
  }

 private:
  [[nodiscard]] instance::Place place() const { return instance::place_of(m_installation.paths, m_record.name); }

  Result<Up> start(bool is_new) {
    if (is_new) {
      m_record.key = TRY(random_key());
      m_record.created = base::now();
    } else {
      TRY(take_existing());
      if (const auto life = TRY(life_that_goes_on())) return already_up(*life);
    }
    if (is_new) tell_hidden_host();
    m_makes_image = is_new || m_request.renew == Renew::yes;
    if (!m_makes_image && m_request.run.image) return fail(has_an_image());
    m_phases.end("looking at the instance");
    auto prepared = TRY(prepare());
    TRY(write_files(prepared, is_new ? base::Durable::yes : base::Durable::no));
    // No record is open meanwhile: see submit_run.
    auto submitted = TRY(submit_run(m_installation, std::move(prepared), m_phases, m_reporter));
    m_record.run_id = submitted.id;
    TRY(instance::write_record(m_installation.paths, m_record));
    TRY(wait_for_service());
    m_phases.end("waiting for the instance");
    return tell();
  }

  void tell_hidden_host() const {
    const fs::path file = instance::user_configuration_file();
    if (!instance::names_host(base::read_file(file).value_or(""), m_record.name)) return;
    m_reporter.warn(fmt::format("{0} has a host {1}, which `ssh {1}` no longer means; for another name: trail up {1}-2",
                                file.string(), m_record.name));
  }

  [[nodiscard]] Error has_an_image() const {
    return base::error(ErrorCode::usage, fmt::format("{} has its image already", m_record.name))
        .with_hint(fmt::format("make it anew: trail up --renew --image {} {}", *m_request.run.image, m_record.name));
  }

  // One that another call began is waited for, and so is the end of one that ends. Without one, the life before is over
  // and its files are closed.
  Result<std::optional<Life>> life_that_goes_on() {
    auto store = TRY(open_runs(m_installation, m_reporter));
    while (auto life = present_life(store, m_record)) {
      if (life->status.state == run::State::running && instance::Connection::open(place().inside())) return life;
      TRY(check_patience(life->status));
      std::this_thread::sleep_for(k_look_again);
    }
    TRY(wait_until_lives_are_gone(store, m_record));
    return std::optional<Life>();
  }

  Result<void> take_existing() {
    m_record = TRY(instance::read_record(m_installation.paths, m_record.name));
    if (m_record.spec.workspace != m_folder) return fail(belongs_elsewhere(m_record, m_folder));
    m_asks = asks_for_something(m_request);
    keep_options(m_request, m_record.spec);
    return {};
  }

  Result<Up> already_up(const Life& life) {
    if (m_request.renew == Renew::yes)
      return fail(base::error(ErrorCode::conflict, fmt::format("{} is up", m_record.name))
                      .with_hint(fmt::format("stop it first: trail down {}", m_record.name)));
    if (m_record.run_id != life.run_id) {
      m_record.run_id = life.run_id;
      TRY(instance::write_record(m_installation.paths, m_record));
    }
    if (m_asks)
      m_reporter.warn(
          fmt::format("{0} stays as it is while it is up; for other options: trail down {0}", m_record.name));
    TRY(wait_for_service());
    auto up = TRY(tell());
    up.was_up = true;
    return up;
  }

  // An instance that was made goes on with its image, whatever its project needs by now.
  Result<PreparedRun> prepare() {
    RunRequest& run = m_request.run;
    if (!m_makes_image) run.image = m_record.spec.image_id;
    run.command = life_command(m_record.name);
    run.snapshot = TakeSnapshot::no;
    run.network = m_request.network.value_or(sandbox::Network::host);
    auto prepared = TRY(prepare_run(m_installation, run, m_phases, m_reporter));
    if (!prepared.image)
      return fail(base::error(ErrorCode::unsupported, "an instance needs an image, and this folder declares nothing")
                      .with_hint("name what it needs in requirements.txt"));
    if (!m_makes_image) tell_changed_lock();
    const auto layers = layers_for(*prepared.image);
    prepared.spec.instance = run::OfInstance{.name = m_record.name, .key = m_record.key, .layers = layers};
    prepared.spec.scratch_after = sandbox::Scratch::kept;
    m_phases.end("its SSH server");
    return prepared;
  }

  void tell_changed_lock() const {
    const auto lock = lock::read_lock(m_folder / lock::k_lock_file_name);
    if (!lock || m_record.spec.lock_digest.empty() || lock::digest(*lock) == m_record.spec.lock_digest) return;
    m_reporter.note(fmt::format(
        "the lock has changed since {0} was made; it goes on as it was (`trail up --renew {0}` makes it anew)",
        m_record.name));
  }

  // Without it `trail exec` still works, so it is no reason to fail.
  std::vector<fs::path> layers_for(const image::Image& image) {
    const auto layer = image::ensure_instance_layer(m_installation.paths.store(), image, m_reporter);
    m_record.has_ssh = layer.has_value();
    if (!layer) {
      m_no_ssh = layer.error().message;
      const auto& why = layer.error().context;
      m_reporter.warn(fmt::format("no SSH into {}: {}{}", m_record.name, m_no_ssh,
                                  why.empty() ? "" : fmt::format(" ({})", why.front())));
      return {};
    }
    return layer->empty() ? std::vector<fs::path>() : std::vector{*layer};
  }

  Result<void> write_files(const PreparedRun& prepared, base::Durable durable) {
    if (m_request.renew == Renew::yes) TRY(base::remove_tree(place().scratch()));
    m_record.spec = prepared.spec;
    m_record.spec.id = m_record.name;
    TRY(make_instance_files(m_installation, m_record));
    return instance::write_record(m_installation.paths, m_record, durable);
  }

  Result<void> wait_for_service() {
    auto store = TRY(open_runs(m_installation, m_reporter));
    for (int look = 1; !instance::Connection::open(place().inside()); ++look) TRY(wait_a_moment(store, look));
    return learn_user(store);
  }

  // It is written when the container has started, which the service may be quicker than.
  Result<void> learn_user(run::RunStore& store) {
    const fs::path file = store.directory(m_record.run_id) / run::k_container_file;
    std::string user;
    for (int look = 1; user.empty(); ++look) {
      if (const auto told = base::read_json_file(file)) user = base::string_at(*told, "user");
      if (user.empty()) TRY(wait_a_moment(store, look));
    }
    if (user == m_record.user) return {};
    m_record.user = user;
    return instance::write_record(m_installation.paths, m_record);
  }

  Result<void> wait_a_moment(run::RunStore& store, int look) const {
    if (look % k_looks_until_its_state_is_read == 0) TRY(check_life(store));
    std::this_thread::sleep_for(k_look_again);
    return {};
  }

  // Somebody inside may have removed its socket; or it runs on another machine that shares the state folder.
  [[nodiscard]] Result<void> check_patience(const run::Status& status) const {
    if (status.state != run::State::running || !status.running || base::now() - *status.running < k_patience) return {};
    return fail(
        base::error(ErrorCode::conflict, fmt::format("{} is up, but doesn't answer", m_record.name))
            .with_hint(fmt::format("stop it and start it again: trail down {0} && trail up {0}", m_record.name)));
  }

  Result<void> check_life(run::RunStore& store) const {
    const auto status = TRY(store.status(m_record.run_id));
    if (!run::is_final(status.state)) return check_patience(status);
    if (status.error) return fail(*status.error);
    return fail(base::error(ErrorCode::cancelled, fmt::format("{} ended at once: {}", m_record.name, status.cause))
                    .with_hint(fmt::format("see what it said: trail logs {}", m_record.run_id)));
  }

  Result<Up> tell() {
    TRY(write_client_configuration(m_installation));
    Up up{.record = m_record, .ssh_configuration = instance::user_configuration_file(), .no_ssh = m_no_ssh};
    const auto included =
        instance::include_in(up.ssh_configuration, instance::client_configuration_file(m_installation.paths));
    if (!included)
      m_reporter.warn(fmt::format("`ssh {0}` won't know it, `trail ssh {0}` does: {1}", m_record.name,
                                  base::to_text(included.error())));
    up.included_now = included && *included == instance::Included::now;
    return up;
  }

  const Installation& m_installation;
  UpRequest& m_request;
  Phases& m_phases;
  Reporter& m_reporter;
  fs::path m_folder;
  instance::Record m_record;
  std::string m_no_ssh;
  bool m_makes_image = false, m_asks = false;
};

}  // namespace

Result<Up> up(const Installation& installation, UpRequest request, Phases& phases, Reporter& reporter) {
  return Rising(installation, request, phases, reporter).rise();
}

}  // namespace startrail::app
