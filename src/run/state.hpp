// The states of a run, and which may follow which.
#pragma once

#include <optional>
#include <string_view>

namespace startrail::run {

enum class State { queued, preparing, running, ending, succeeded, failed, stopped, killed, preempted, lost };
[[nodiscard]] std::string_view name(State state);
[[nodiscard]] std::optional<State> state_from_name(std::string_view name);
[[nodiscard]] bool is_final(State state);
// queued → preparing → running → ending → final; a run that never came to its command may end at once
// (not as succeeded); any live state may become lost; nothing leaves a final one.
[[nodiscard]] bool may_follow(State from, State to);
// For the run's owner: any later state, for one in between may have been impossible to write.
[[nodiscard]] bool may_follow_by_owner(State from, State to);

}  // namespace startrail::run
