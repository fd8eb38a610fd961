#include "instance/service.hpp"

#include <gtest/gtest.h>

#include "base/files.hpp"

namespace startrail::instance {
namespace {

TEST(Service, a_folder_without_a_listener_is_told_as_not_found) {
  const fs::path folder = *base::make_temporary_directory(fs::temp_directory_path(), "service");
  const auto connection = Connection::open(folder);
  ASSERT_FALSE(connection);
  EXPECT_EQ(connection.error().code, ErrorCode::not_found);
  [[maybe_unused]] const auto removed = base::remove_tree(folder);
}

}  // namespace
}  // namespace startrail::instance
