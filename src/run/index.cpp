#include "run/index.hpp"

#include <chrono>

namespace startrail::run {
namespace {

const std::vector<std::string>& migrations() {
  static const std::vector<std::string> s_migrations{
      "CREATE TABLE run (id TEXT PRIMARY KEY, command TEXT NOT NULL, image TEXT NOT NULL, workspace TEXT NOT NULL,"
      " state TEXT NOT NULL, created INTEGER NOT NULL, ended INTEGER, exit_code INTEGER, cause TEXT NOT NULL)"
      " WITHOUT ROWID",
  };
  return s_migrations;
}

std::int64_t milliseconds(base::Time time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}
base::Time time_from(std::int64_t milliseconds) {
  return base::Time(std::chrono::milliseconds(milliseconds));
}

db::Value time_or_null(const std::optional<base::Time>& time) {
  return time ? db::Value(milliseconds(*time)) : db::Value(nullptr);
}
db::Value number_or_null(const std::optional<int>& number) {
  return number ? db::Value(static_cast<std::int64_t>(*number)) : db::Value(nullptr);
}

RunStore::Listed listed(const db::Row& row) {
  RunStore::Listed run{.id = row.text(0),
                       .command = row.text(1),
                       .image_id = row.text(2),
                       .workspace = row.text(3),
                       .state = state_from_name(row.text(4)).value_or(State::lost),
                       .created = time_from(row.integer(5)),
                       .cause = row.text(8)};
  if (!row.is_null(6)) run.ended = time_from(row.integer(6));
  if (!row.is_null(7)) run.exit_code = static_cast<int>(row.integer(7));
  return run;
}

}  // namespace

Result<Index> Index::open(const std::filesystem::path& database) {
  return Index(TRY(db::Database::open(database, migrations())));
}

Result<void> Index::put(const RunStore::Listed& run) {
  return m_database.execute(
      "INSERT OR REPLACE INTO run (id, command, image, workspace, state, created, ended, exit_code, cause)"
      " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
      {run.id, run.command, run.image_id, run.workspace, std::string(name(run.state)), milliseconds(run.created),
       time_or_null(run.ended), number_or_null(run.exit_code), run.cause});
}

Result<void> Index::put_all(const std::vector<RunStore::Listed>& runs) {
  if (runs.empty()) return {};
  return m_database.transaction([&]() -> Result<void> {
    for (const auto& run : runs) TRY(put(run));
    return {};
  });
}

Result<void> Index::update(const std::string& id, const Status& status) {
  return m_database.execute("UPDATE run SET state = ?, ended = ?, exit_code = ?, cause = ? WHERE id = ?",
                            {std::string(name(status.state)), time_or_null(status.ended),
                             number_or_null(status.exit_code), status.cause, id});
}

Result<void> Index::remove(const std::string& id) {
  return m_database.execute("DELETE FROM run WHERE id = ?", {id});
}

Result<std::vector<RunStore::Listed>> Index::all() {
  std::vector<RunStore::Listed> runs;
  TRY(
      m_database.query("SELECT id, command, image, workspace, state, created, ended, exit_code, cause FROM run"
                       " ORDER BY created DESC, id",
                       {}, [&](const db::Row& row) { runs.push_back(listed(row)); }));
  return runs;
}

}  // namespace startrail::run
