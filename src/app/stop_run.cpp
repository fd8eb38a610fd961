#include "app/stop_run.hpp"

#include <fmt/format.h>

#include <chrono>
#include <thread>

#include "engine/local/local_engine.hpp"

namespace startrail::app {
namespace {

constexpr auto k_look_again = std::chrono::milliseconds(20);
// What a supervisor may take for its own work after the last process is gone (GPU memory, the record).
constexpr int k_ending_seconds = 30;

Result<std::optional<run::Status>> wait_until(run::RunStore& store, const std::string& id,
                                              std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    auto status = TRY(store.status(id));
    if (run::is_final(status.state)) return std::optional(std::move(status));
    if (std::chrono::steady_clock::now() >= deadline) return std::optional<run::Status>();
    std::this_thread::sleep_for(k_look_again);
  }
}

}  // namespace

Result<run::Status> stop_run(const Installation& installation, const std::string& id, const StopRequest& request) {
  auto store = TRY(run::RunStore::open(installation.paths, [](std::string_view) {}));
  const auto before = TRY(store.status(id));
  if (run::is_final(before.state)) return before;
  const auto engine = engine::local::make_engine(installation.paths, installation.program);
  TRY(engine->stop(id, request.how));
  const int own_grace = TRY(store.spec(id)).stop_grace_seconds;
  const int grace =
      request.how == run::StopHow::at_once ? 0 : request.grace_seconds.value_or(own_grace + k_ending_seconds);
  const auto now = std::chrono::steady_clock::now;
  if (auto ended = TRY(wait_until(store, id, now() + std::chrono::seconds(grace)))) return *ended;
  TRY(engine->stop(id, run::StopHow::at_once));
  if (auto ended = TRY(wait_until(store, id, now() + std::chrono::seconds(k_ending_seconds)))) return *ended;
  return fail(
      base::error(ErrorCode::internal,
                  fmt::format("run {} was killed, but has not ended after {} s", id, k_ending_seconds))
          .with_hint(fmt::format("its supervisor's own log: {}", (store.directory(id) / "supervisor.log").string())));
}

}  // namespace startrail::app
