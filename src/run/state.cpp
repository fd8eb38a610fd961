#include "run/state.hpp"

#include <array>
#include <utility>

namespace startrail::run {
namespace {

constexpr std::array<std::pair<State, std::string_view>, 10> k_names{{
    {State::queued, "queued"},
    {State::preparing, "preparing"},
    {State::running, "running"},
    {State::ending, "ending"},
    {State::succeeded, "succeeded"},
    {State::failed, "failed"},
    {State::stopped, "stopped"},
    {State::killed, "killed"},
    {State::preempted, "preempted"},
    {State::lost, "lost"},
}};

}  // namespace

std::string_view name(State state) {
  for (const auto& [known, text] : k_names)
    if (known == state) return text;
  return "unknown";
}

std::optional<State> state_from_name(std::string_view name) {
  for (const auto& [state, text] : k_names)
    if (text == name) return state;
  return std::nullopt;
}

bool is_final(State state) {
  return state >= State::succeeded;
}

bool may_follow(State from, State to) {
  if (is_final(from)) return false;
  if (to == State::lost) return true;
  switch (from) {
    case State::queued: return to == State::preparing || (is_final(to) && to != State::succeeded);
    case State::preparing: return to == State::running || (is_final(to) && to != State::succeeded);
    case State::running: return to == State::ending;
    default: return is_final(to);
  }
}

bool may_follow_by_owner(State from, State to) {
  return !is_final(from) && to > from;
}

}  // namespace startrail::run
