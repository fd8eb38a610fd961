// SQLite: the only includer of sqlite3.h. state.db is an index over runs/<id>/, which are the truth:
// a lost or corrupt database is set aside and rebuilt from them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/error.hpp"

namespace startrail::db {

using Value = std::variant<std::nullptr_t, std::int64_t, double, std::string>;

class Row {
 public:
  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] bool is_null(int column) const;

 private:
  friend class Database;
  explicit Row(void* statement) : m_statement(statement) {}
  void* m_statement;
};

// One connection. Not for sharing between threads. WAL on local filesystems, rollback journal elsewhere. Survives the
// death of any process; a power failure may leave it damaged or older (it is never fsynced), and then it is rebuilt.
class Database {
 public:
  // Opens or creates, and runs the migrations that are missing, in one transaction each.
  // Errors: corrupt (not a database, damaged), permission, no_space, unsupported (made by a newer version).
  [[nodiscard]] static Result<Database> open(const std::filesystem::path& file,
                                             const std::vector<std::string>& migrations);
  [[nodiscard]] Result<void> execute(std::string_view sql, const std::vector<Value>& parameters = {});
  [[nodiscard]] Result<void> query(std::string_view sql, const std::vector<Value>& parameters,
                                   const std::function<void(const Row&)>& on_row);
  // Rolls back when `body` fails.
  [[nodiscard]] Result<void> transaction(const std::function<Result<void>()>& body);

 private:
  struct Closer {
    void operator()(void* handle) const;
  };
  explicit Database(void* handle) : m_handle(handle) {}
  std::unique_ptr<void, Closer> m_handle;
};

}  // namespace startrail::db
