#include "db/database.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run/temporary_folder.hpp"

namespace startrail::db {
namespace {

const std::vector<std::string> k_schema{"CREATE TABLE thing (name TEXT PRIMARY KEY, size INTEGER, weight REAL)"};

std::int64_t count_of(Database& database, const std::string& table) {
  std::int64_t count = -1;
  EXPECT_TRUE(database.query("SELECT count(*) FROM " + table, {}, [&](const Row& row) { count = row.integer(0); }));
  return count;
}

TEST(Database, values_come_back_as_they_were_bound) {
  TemporaryFolder folder;
  auto database = Database::open(folder / "a.db", k_schema).value();
  const std::string name("käse\0x", 7);
  ASSERT_TRUE(database.execute("INSERT INTO thing VALUES (?, ?, ?)", {name, std::int64_t{1} << 40U, nullptr}));
  int rows = 0;
  ASSERT_TRUE(database.query("SELECT * FROM thing", {}, [&](const Row& row) {
    ++rows;
    EXPECT_EQ(row.text(0), name);
    EXPECT_EQ(row.integer(1), std::int64_t{1} << 40U);
    EXPECT_TRUE(row.is_null(2));
    EXPECT_FALSE(row.is_null(1));
  }));
  EXPECT_EQ(rows, 1);
}

TEST(Database, missing_migrations_are_applied_once_and_data_survives) {
  TemporaryFolder folder;
  {
    auto database = Database::open(folder / "a.db", k_schema).value();
    ASSERT_TRUE(database.execute("INSERT INTO thing VALUES ('a', 1, 1.5)"));
  }
  auto longer = k_schema;
  longer.emplace_back("ALTER TABLE thing ADD COLUMN colour TEXT");
  for (int i = 0; i < 2; ++i) {
    auto database = Database::open(folder / "a.db", longer).value();
    EXPECT_TRUE(database.execute("UPDATE thing SET colour = 'red'"));
    EXPECT_EQ(count_of(database, "thing"), 1);
  }
}

TEST(Database, a_schema_of_a_newer_version_is_refused) {
  TemporaryFolder folder;
  auto longer = k_schema;
  longer.emplace_back("CREATE TABLE other (x)");
  Database::open(folder / "a.db", longer).value();
  const auto older = Database::open(folder / "a.db", k_schema);
  ASSERT_FALSE(older);
  EXPECT_EQ(older.error().code, ErrorCode::unsupported);
}

TEST(Database, a_failed_migration_changes_nothing) {
  TemporaryFolder folder;
  Database::open(folder / "a.db", k_schema).value();
  auto broken = k_schema;
  broken.emplace_back("CREATE TABLE nonsense (");
  EXPECT_FALSE(Database::open(folder / "a.db", broken));
  EXPECT_TRUE(Database::open(folder / "a.db", k_schema));
}

TEST(Database, a_file_that_is_no_database_is_corrupt) {
  TemporaryFolder folder;
  write_test_file(folder / "a.db", std::string(8192, 'x'));
  const auto opened = Database::open(folder / "a.db", k_schema);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().code, ErrorCode::corrupt);
  EXPECT_NE(opened.error().message.find("a.db"), std::string::npos);
}

TEST(Database, a_folder_that_is_not_there_is_an_error_that_names_the_file) {
  const auto opened = Database::open("/nonexistent-folder/a.db", k_schema);
  ASSERT_FALSE(opened);
  EXPECT_NE(opened.error().message.find("/nonexistent-folder/a.db"), std::string::npos);
}

TEST(Database, a_failed_transaction_is_rolled_back) {
  TemporaryFolder folder;
  auto database = Database::open(folder / "a.db", k_schema).value();
  const auto done = database.transaction([&]() -> Result<void> {
    TRY(database.execute("INSERT INTO thing VALUES ('a', 1, 1)"));
    return fail(ErrorCode::cancelled, "changed my mind");
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::cancelled);
  EXPECT_EQ(count_of(database, "thing"), 0);
}

TEST(Database, processes_that_open_and_write_at_once_wait_for_each_other) {
  TemporaryFolder folder;
  constexpr int k_writers = 6;
  constexpr int k_rows = 20;
  for (int writer = 0; writer < k_writers; ++writer) {
    if (::fork() != 0) continue;
    auto database = Database::open(folder / "a.db", k_schema);
    bool good = database.has_value();
    for (int i = 0; good && i < k_rows; ++i)
      good = database->execute("INSERT INTO thing VALUES (?, 1, 1)", {std::to_string(writer) + "." + std::to_string(i)})
                 .has_value();
    ::_exit(good ? 0 : 1);
  }
  for (int writer = 0; writer < k_writers; ++writer) {
    int status = -1;
    ::wait(&status);
    EXPECT_EQ(status, 0);
  }
  auto database = Database::open(folder / "a.db", k_schema).value();
  EXPECT_EQ(count_of(database, "thing"), k_writers * k_rows);
}

TEST(Database, the_log_of_writes_stays_empty_however_many_processes_write_one_after_the_other) {
  const TemporaryFolder folder;
  const auto file = folder / "state.db";
  for (int i = 0; i < 20; ++i) {
    auto database = Database::open(file, {"CREATE TABLE t (a INTEGER)"}).value();
    ASSERT_TRUE(database.execute("INSERT INTO t VALUES (?)", {std::int64_t{i}}));
  }
  std::filesystem::path log = file;
  log += "-wal";
  EXPECT_EQ(std::filesystem::file_size(log), 0);
  auto database = Database::open(file, {"CREATE TABLE t (a INTEGER)"}).value();
  std::int64_t rows = 0;
  ASSERT_TRUE(database.query("SELECT count(*) FROM t", {}, [&](const Row& row) { rows = row.integer(0); }));
  EXPECT_EQ(rows, 20);
}

TEST(Database, a_missing_table_is_an_error_with_sqlites_words) {
  TemporaryFolder folder;
  auto database = Database::open(folder / "a.db", k_schema).value();
  const auto done = database.execute("DELETE FROM nowhere");
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("nowhere"), std::string::npos);
}

}  // namespace
}  // namespace startrail::db
