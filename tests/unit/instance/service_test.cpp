#include "instance/service.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

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

TEST(Service, a_link_to_another_socket_is_not_followed) {
  const fs::path folder = *base::make_temporary_directory(fs::temp_directory_path(), "service");
  const base::Fd other(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  (folder / "other").string().copy(address.sun_path, sizeof address.sun_path - 1);
  ASSERT_EQ(::bind(other.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  fs::create_symlink("other", folder / init::k_service_socket);
  const auto connection = Connection::open(folder);
  ASSERT_FALSE(connection);
  EXPECT_EQ(connection.error().code, ErrorCode::conflict);
  [[maybe_unused]] const auto removed = base::remove_tree(folder);
}

}  // namespace
}  // namespace startrail::instance
