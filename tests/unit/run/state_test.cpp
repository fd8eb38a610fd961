#include "run/state.hpp"

#include <gtest/gtest.h>

#include <set>
#include <utility>
#include <vector>

namespace startrail::run {
namespace {

using enum State;
const std::vector<State> k_all{queued, preparing, running, ending, succeeded, failed, stopped, killed, preempted, lost};

TEST(State, every_state_has_a_name_that_reads_back) {
  std::set<std::string_view> names;
  for (const State state : k_all) {
    EXPECT_EQ(state_from_name(name(state)), state);
    names.insert(name(state));
  }
  EXPECT_EQ(names.size(), k_all.size());
  EXPECT_EQ(state_from_name("asleep"), std::nullopt);
}

TEST(State, exactly_these_transitions_are_allowed) {
  const std::set<std::pair<State, State>> allowed{
      {queued, preparing},    {queued, failed},     {queued, stopped},   {queued, killed},     {queued, preempted},
      {queued, lost},         {preparing, running}, {preparing, failed}, {preparing, stopped}, {preparing, killed},
      {preparing, preempted}, {preparing, lost},    {running, ending},   {running, lost},      {ending, succeeded},
      {ending, failed},       {ending, stopped},    {ending, killed},    {ending, preempted},  {ending, lost}};
  for (const State from : k_all)
    for (const State to : k_all)
      EXPECT_EQ(may_follow(from, to), allowed.contains({from, to})) << name(from) << " → " << name(to);
}

TEST(State, a_state_is_final_when_nothing_may_follow_it) {
  for (const State from : k_all) {
    bool has_next = false;
    for (const State to : k_all) has_next = has_next || may_follow(from, to);
    EXPECT_EQ(is_final(from), !has_next) << name(from);
  }
}

TEST(State, its_owner_may_leave_states_out_but_never_go_back) {
  for (const State from : k_all)
    for (const State to : k_all)
      EXPECT_EQ(may_follow_by_owner(from, to), !is_final(from) && to > from) << name(from) << " → " << name(to);
}

}  // namespace
}  // namespace startrail::run
