#include "db/database.hpp"

#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/vfs.h>

#include <algorithm>
#include <array>

namespace startrail::db {
namespace {

constexpr int k_busy_timeout_ms = 5000;
// Small, so that the first connection after a crash has little to replay (the default is 1000 pages).
constexpr int k_checkpoint_pages = 200;

sqlite3* connection(const std::unique_ptr<void, auto>& handle) {
  return static_cast<sqlite3*>(handle.get());
}

ErrorCode code_of(int result) {
  switch (result & 0xff) {
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB: return ErrorCode::corrupt;
    case SQLITE_FULL: return ErrorCode::no_space;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
    case SQLITE_CANTOPEN: return ErrorCode::permission;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_CONSTRAINT: return ErrorCode::conflict;
    default: return ErrorCode::internal;
  }
}

Error sqlite_error(sqlite3* handle, std::string_view what) {
  const char* file = handle == nullptr ? nullptr : sqlite3_db_filename(handle, "main");
  return base::error(code_of(sqlite3_extended_errcode(handle)),
                     fmt::format("{} {}: {}", what, file == nullptr ? "" : file, sqlite3_errmsg(handle)));
}

// Filesystems whose shared memory and locks SQLite's write-ahead log can rely on: sqlite.org/wal.html,
// "All processes using a database must be on the same host computer; WAL does not work over a network filesystem."
bool supports_write_ahead_log(const std::filesystem::path& file) {
  struct statfs status{};
  const auto folder = file.has_parent_path() ? file.parent_path() : std::filesystem::path(".");
  if (::statfs(folder.c_str(), &status) != 0) return false;
  constexpr std::array<unsigned long, 9> k_local = {
      0xEF53,      // ext2, ext3, ext4
      0x58465342,  // xfs
      0x9123683E,  // btrfs
      0x01021994,  // tmpfs
      0x794C7630,  // overlayfs
      0x2FC12FC1,  // zfs
      0xF2F52010,  // f2fs
      0xCA451A4E,  // bcachefs
      0x3153464A,  // jfs
  };
  return std::ranges::find(k_local, static_cast<unsigned long>(status.f_type)) != k_local.end();
}

struct Finalizer {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Statement = std::unique_ptr<sqlite3_stmt, Finalizer>;

Result<Statement> prepare(sqlite3* handle, std::string_view sql) {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle, sql.data(), static_cast<int>(sql.size()), &statement, nullptr) != SQLITE_OK)
    return fail(sqlite_error(handle, "cannot query"));
  return Statement(statement);
}

void bind(sqlite3_stmt* statement, int index, const Value& value) {
  if (const auto* number = std::get_if<std::int64_t>(&value)) {
    sqlite3_bind_int64(statement, index, *number);
  } else if (const auto* real = std::get_if<double>(&value)) {
    sqlite3_bind_double(statement, index, *real);
  } else if (const auto* text = std::get_if<std::string>(&value)) {
    sqlite3_bind_text(statement, index, text->data(), static_cast<int>(text->size()), SQLITE_TRANSIENT);
  } else {
    sqlite3_bind_null(statement, index);
  }
}

Result<std::int64_t> user_version(Database& database) {
  std::int64_t version = 0;
  TRY(database.query("PRAGMA user_version", {}, [&](const Row& row) { version = row.integer(0); }));
  return version;
}

// Another process may have migrated between the first look and the lock, so the version is read again inside.
Result<void> migrate(Database& database, const std::vector<std::string>& migrations) {
  const auto newest = static_cast<std::int64_t>(migrations.size());
  std::int64_t version = TRY(user_version(database));
  const auto next_step = [&]() -> Result<void> {
    version = TRY(user_version(database));
    if (version >= newest) return {};
    TRY(database.execute(migrations[static_cast<std::size_t>(version)]));
    return database.execute(fmt::format("PRAGMA user_version = {}", ++version));
  };
  while (version < newest) TRY(database.transaction(next_step));
  if (version > newest)
    return fail(base::error(ErrorCode::unsupported, "state.db was made by a newer version of this program")
                    .with_hint("use that version, or set STARTRAIL_HOME to another folder"));
  return {};
}

}  // namespace

std::string Row::text(int column) const {
  auto* statement = static_cast<sqlite3_stmt*>(m_statement);
  const auto* data = reinterpret_cast<const char*>(sqlite3_column_text(statement, column));
  if (data == nullptr) return {};
  return {data, static_cast<std::size_t>(sqlite3_column_bytes(statement, column))};
}

std::int64_t Row::integer(int column) const {
  return sqlite3_column_int64(static_cast<sqlite3_stmt*>(m_statement), column);
}

bool Row::is_null(int column) const {
  return sqlite3_column_type(static_cast<sqlite3_stmt*>(m_statement), column) == SQLITE_NULL;
}

void Database::Closer::operator()(void* handle) const {
  sqlite3_close_v2(static_cast<sqlite3*>(handle));
}

Result<Database> Database::open(const std::filesystem::path& file, const std::vector<std::string>& migrations) {
  sqlite3* handle = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int result = sqlite3_open_v2(file.c_str(), &handle, flags, nullptr);
  Database database(handle);
  if (result != SQLITE_OK)
    return fail(code_of(result), fmt::format("cannot open {}: {}", file.string(), sqlite3_errmsg(handle)));
  sqlite3_extended_result_codes(handle, 1);
  sqlite3_busy_timeout(handle, k_busy_timeout_ms);
  // Whoever closes last folds the log in and leaves it empty: the next process, mostly the only one at its time, would
  // else read all of it and, not knowing that it was folded in, write behind it. Files stay, so that none is made anew.
  int persistent = 1;
  sqlite3_file_control(handle, "main", SQLITE_FCNTL_PERSIST_WAL, &persistent);
  TRY(database.execute(supports_write_ahead_log(file) ? "PRAGMA journal_mode = WAL" : "PRAGMA journal_mode = DELETE"));
  // Nothing is kept here that could not be read again from elsewhere, so nobody waits for the disk.
  TRY(database.execute("PRAGMA synchronous = OFF"));
  TRY(database.execute("PRAGMA journal_size_limit = 0"));
  TRY(database.execute(fmt::format("PRAGMA wal_autocheckpoint = {}", k_checkpoint_pages)));
  TRY(migrate(database, migrations));
  return database;
}

Result<void> Database::execute(std::string_view sql, const std::vector<Value>& parameters) {
  return query(sql, parameters, [](const Row&) {});
}

Result<void> Database::query(std::string_view sql, const std::vector<Value>& parameters,
                             const std::function<void(const Row&)>& on_row) {
  sqlite3* handle = connection(m_handle);
  const Statement statement = TRY(prepare(handle, sql));
  for (std::size_t i = 0; i < parameters.size(); ++i) bind(statement.get(), static_cast<int>(i) + 1, parameters[i]);
  for (;;) {
    const int result = sqlite3_step(statement.get());
    if (result == SQLITE_DONE) return {};
    if (result != SQLITE_ROW) return fail(sqlite_error(handle, "cannot read or write"));
    on_row(Row(statement.get()));
  }
}

// IMMEDIATE takes the write lock at once: a later upgrade from reading could not wait (SQLITE_BUSY without the
// timeout).
Result<void> Database::transaction(const std::function<Result<void>()>& body) {
  TRY(execute("BEGIN IMMEDIATE"));
  if (auto done = body(); !done) {
    [[maybe_unused]] const auto rolled_back = execute("ROLLBACK");
    return done;
  }
  if (auto committed = execute("COMMIT"); !committed) {
    [[maybe_unused]] const auto rolled_back = execute("ROLLBACK");
    return committed;
  }
  return {};
}

}  // namespace startrail::db
