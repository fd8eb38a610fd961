#include <gtest/gtest.h>

#include <string>

#include "base/process.hpp"

namespace startrail::base {
namespace {

TEST(ProcessInput, a_program_that_does_not_read_its_input_ends_nobody_but_itself) {
  Command command{.argv = {"/bin/sh", "-c", "exec 0<&-; sleep 0.3; exit 7"}};
  command.input = std::string(1U << 20U, 'x');
  const auto done = run_process(command);
  ASSERT_TRUE(done) << to_text(done.error());
  EXPECT_EQ(done->exit_code, 7);
}

}  // namespace
}  // namespace startrail::base
