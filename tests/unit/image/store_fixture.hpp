// A store in a temporary folder, and wheels put into it.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include <sys/stat.h>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "image/pipeline.hpp"
#include "wheel_builder.hpp"

namespace startrail::image::testing {

// ThreadSanitizer does not follow threads that a forked child starts.
#ifdef __SANITIZE_THREAD__
inline constexpr bool k_may_fork = false;
#else
inline constexpr bool k_may_fork = true;
#endif

class StoreFixture : public ::testing::Test {
 protected:
  void SetUp() override { m_folder = *base::make_temporary_directory(fs::temp_directory_path(), "startrail-store"); }
  void TearDown() override { EXPECT_TRUE(base::remove_tree(m_folder)); }

  [[nodiscard]] fs::path root() const { return m_folder / "store"; }
  [[nodiscard]] Store store() const { return *Store::open(root()); }

  // Writes the wheel to a local file.
  WheelSource source(const WheelBuilder& wheel) const {
    return source(wheel.filename(), wheel.bytes(), wheel.name, wheel.version);
  }
  WheelSource source(const std::string& filename, const std::string& bytes, const std::string& name = "demo",
                     const std::string& version = "1.0") const {
    const fs::path file = m_folder / "files" / filename;
    EXPECT_TRUE(base::make_directories(file.parent_path()));
    EXPECT_TRUE(base::write_file_atomic(file, bytes));
    return {.name = name,
            .version = version,
            .filename = filename,
            .sha256 = base::sha256_hex(bytes),
            .size = bytes.size(),
            .address = base::file_address(file),
            .look_up = {}};
  }

  Result<void> install(std::vector<WheelSource> sources, PipelineOptions options = {.workers = 2}) const {
    base::SilentReporter reporter;
    return install_wheels(store(), std::move(sources), options, reporter);
  }
  Result<void> install(const WheelBuilder& wheel) const { return install({source(wheel)}); }

  [[nodiscard]] fs::path tree(const WheelSource& wheel) const { return store().wheel(wheel.sha256); }
  static std::string content(const fs::path& file) { return base::read_file(file).value_or("<missing>"); }

  // Everything in the store but the folders that always exist, lock files and notes for the disk.
  [[nodiscard]] std::vector<std::string> things() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(root())) {
      const std::string path = entry.path().lexically_relative(root()).string();
      if (path.find('/') != std::string::npos && !path.starts_with("locks/") && !path.starts_with("unsynced/"))
        found.push_back(path);
    }
    return found;
  }

  // Every file, folder and link of the store but the lock files: which file it is, its mode and times, what it holds.
  [[nodiscard]] std::map<std::string, std::string> snapshot() const {
    std::map<std::string, std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(root())) {
      const std::string path = entry.path().lexically_relative(root()).string();
      if (path.starts_with("locks/")) continue;
      struct stat status{};
      ::lstat(entry.path().c_str(), &status);
      const std::string content = entry.is_symlink()        ? fs::read_symlink(entry.path()).string()
                                  : entry.is_regular_file() ? base::sha256_file_hex(entry.path()).value_or("?")
                                                            : "";
      found[path] = fmt::format("{} {:o} {} {}", status.st_ino, status.st_mode, status.st_nlink, content);
    }
    return found;
  }

  fs::path m_folder;
};

}  // namespace startrail::image::testing
