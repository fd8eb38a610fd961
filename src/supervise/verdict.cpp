#include "supervise/verdict.hpp"

#include <fmt/format.h>

namespace startrail::supervise {
namespace {

std::string asker(const std::optional<run::StopRequest>& request) {
  return request && !request->by.empty() ? "by " + request->by : "by a signal to its supervisor";
}

bool succeeded(const sandbox::Ended& ended) {
  return ended.exit_code == 0 && ended.signal == 0;
}

std::string stop_cause(const WatchResult& result, const run::RunSpec& spec,
                       const std::optional<run::StopRequest>& request) {
  if (result.asked == Urgency::at_once) return "killed " + asker(request);
  std::string cause = "stopped " + asker(request);
  if (result.grace_ran_out) cause += fmt::format("; it had to be killed after {} s of grace", spec.stop_grace_seconds);
  return cause;
}

}  // namespace

void judge(run::Status& status, const WatchResult& result, const run::RunSpec& spec,
           const std::optional<run::StopRequest>& request, std::string_view log_tail) {
  const sandbox::Ended& ended = result.ended;
  if (ended.signal != 0) {
    status.signal = ended.signal;
  } else {
    status.exit_code = ended.exit_code;
  }
  status.peak_memory = ended.peak_memory;
  for (const pid_t pid : ended.survivors)
    status.remarks.push_back(fmt::format("process {} goes on: the command left it, and it may not be killed", pid));
  if (result.asked != Urgency::none && !result.memory_limit_reached) {
    status.state = result.asked == Urgency::at_once ? run::State::killed : run::State::stopped;
    status.cause = run::one_line(stop_cause(result, spec, request));
  } else if (succeeded(ended)) {
    status.state = run::State::succeeded;
    if (ended.out_of_memory) status.remarks.emplace_back("a process of it was killed: the memory limit was reached");
  } else {
    status.state = ended.out_of_memory ? run::State::killed : run::State::failed;
    status.cause = run::cause_of_death(ended, spec, log_tail);
  }
}

}  // namespace startrail::supervise
