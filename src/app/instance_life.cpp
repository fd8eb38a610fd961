#include "app/instance_life.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <thread>

#include "base/json.hpp"

namespace startrail::app {
namespace {

constexpr auto k_patience = std::chrono::seconds(30);
constexpr auto k_look_again = std::chrono::milliseconds(5);

std::optional<Life> if_live(run::RunStore& store, const std::string& run_id) {
  if (run_id.empty()) return std::nullopt;
  auto status = store.status(run_id);
  if (!status || run::is_final(status->state)) return std::nullopt;
  return Life{.run_id = run_id, .status = std::move(*status)};
}

bool init_is_alive(const fs::path& run_directory) {
  const auto told = base::read_json_file(run_directory / run::k_container_file);
  if (!told) return false;
  const auto process = base::process_identity(static_cast<pid_t>(base::integer_at(*told, "init_pid")));
  return process &&
         process->start_ticks == static_cast<unsigned long long>(base::integer_at(*told, "init_start_ticks")) &&
         base::is_alive(*process);
}

std::string command_line(const std::string& name) {
  return fmt::format("{}", fmt::join(life_command(name), " "));
}

}  // namespace

std::vector<std::string> life_command(const std::string& name) {
  return {"trail", "up", name};
}

std::optional<Life> present_life(run::RunStore& store, const instance::Record& record,
                                 const std::vector<run::RunStore::Listed>& live) {
  if (auto life = if_live(store, record.run_id)) return life;
  // An `up` that was killed between starting the run and writing its id down.
  for (const auto& run : live) {
    if (run.command != command_line(record.name)) continue;
    const auto spec = store.spec(run.id);
    if (spec && spec->instance && (record.key.empty() || spec->instance->key == record.key))
      return if_live(store, run.id);
  }
  return std::nullopt;
}

std::optional<Life> present_life(run::RunStore& store, const instance::Record& record) {
  if (auto life = if_live(store, record.run_id)) return life;
  const auto live = store.list(run::RunStore::Which::live);
  return live ? present_life(store, record, *live) : std::nullopt;
}

Result<void> wait_until_gone(run::RunStore& store, const std::string& run_id) {
  if (run_id.empty()) return {};
  const auto status = run::read_status(store.directory(run_id));
  if (!status) return {};
  const auto give_up = std::chrono::steady_clock::now() + k_patience;
  while (base::is_alive(status->supervisor) || init_is_alive(store.directory(run_id))) {
    if (std::chrono::steady_clock::now() > give_up)
      return fail(
          base::error(ErrorCode::conflict, fmt::format("run {} has ended, but is still being tidied up", run_id))
              .with_hint("try again in a moment"));
    std::this_thread::sleep_for(k_look_again);
  }
  return {};
}

Result<void> wait_until_lives_are_gone(run::RunStore& store, const instance::Record& record) {
  constexpr int k_latest = 3;
  TRY(wait_until_gone(store, record.run_id));
  int seen = 0;
  for (const auto& run : TRY(store.list(run::RunStore::Which::all)))
    if (run.command == command_line(record.name) && ++seen <= k_latest) TRY(wait_until_gone(store, run.id));
  return {};
}

}  // namespace startrail::app
