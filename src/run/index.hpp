// The table of runs in state.db.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "db/database.hpp"
#include "run/store.hpp"

namespace startrail::run {

class Index {
 public:
  // Errors: as Database::open.
  [[nodiscard]] static Result<Index> open(const std::filesystem::path& database);
  // Replaces a row of the same id.
  [[nodiscard]] Result<void> put(const RunStore::Listed& run);
  [[nodiscard]] Result<void> put_all(const std::vector<RunStore::Listed>& runs);
  // Takes over state, end, exit code and cause; a run that isn't there is fine.
  [[nodiscard]] Result<void> update(const std::string& id, const Status& status);
  [[nodiscard]] Result<void> remove(const std::string& id);
  [[nodiscard]] Result<std::vector<RunStore::Listed>> all();  // newest first

 private:
  explicit Index(db::Database database) : m_database(std::move(database)) {}
  db::Database m_database;
};

}  // namespace startrail::run
