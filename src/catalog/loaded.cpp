// What the program has of rows: the files compiled in, the user's own, and what verifications say of them.
#include <fmt/format.h>

#include <algorithm>

#include "base/files.hpp"
#include "base/json.hpp"
#include "catalog/plain_toml.hpp"
#include "catalog/rows.hpp"
#include "catalog/verified.hpp"
#include "catalog_data.hpp"

namespace startrail::catalog {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view k_verified_file = "catalog/verified.toml";
constexpr Bytes k_most_of_a_file{1U << 20U};

fs::path& user_folder() {
  static fs::path s_folder;
  return s_folder;
}

struct Loaded {
  std::vector<Combination> rows;
  std::optional<Error> fault;
};

// The files are compiled in and a test reads each: what fails here can only be a fault of the build.
std::vector<Combination> compiled_in() {
  std::vector<Combination> all;
  for (const auto& [name, toml] : k_catalog_files) {
    if (name == k_verified_file) continue;
    if (auto rows = parse_rows(toml, name)) all.insert(all.end(), rows->begin(), rows->end());
  }
  mark_verified(all, compiled_in_verifications());
  return all;
}

std::vector<fs::path> user_files() {
  std::vector<fs::path> files;
  std::error_code absent;
  if (user_folder().empty()) return files;
  for (const auto& entry : fs::directory_iterator(user_folder(), absent))
    if (entry.path().extension() == ".toml") files.push_back(entry.path());
  std::ranges::sort(files);
  return files;
}

Result<std::vector<Combination>> rows_in(const fs::path& file, const std::vector<Combination>& beside) {
  const std::string text = TRY(base::read_file(file, k_most_of_a_file));
  return parse_rows(text, file.string(), beside);
}

Loaded load() {
  Loaded loaded{.rows = compiled_in(), .fault = std::nullopt};
  std::vector<Combination> own;
  for (const auto& file : user_files()) {
    auto rows = rows_in(file, loaded.rows);
    if (rows) {
      own.insert(own.end(), rows->begin(), rows->end());
    } else if (!loaded.fault) {
      loaded.fault =
          std::move(rows.error())
              .with_hint("correct it (docs/guides/adding-a-combination.md), or move the file out of that folder");
    }
  }
  if (!own.empty()) loaded.rows = with_own_rows(std::move(loaded.rows), std::move(own));
  return loaded;
}

const Loaded& loaded() {
  static const Loaded s_loaded = load();
  return s_loaded;
}

}  // namespace

const std::vector<Verified>& compiled_in_verifications() {
  static const std::vector<Verified> s_all = [] {
    for (const auto& [name, toml] : k_catalog_files)
      if (name == k_verified_file) return parse_verified(toml, name).value_or(std::vector<Verified>{});
    return std::vector<Verified>{};
  }();
  return s_all;
}

void use_user_rows(const fs::path& folder) {
  user_folder() = folder;
}

const std::vector<Combination>& combinations() {
  return loaded().rows;
}

const std::optional<Error>& fault_of_user_rows() {
  return loaded().fault;
}

}  // namespace startrail::catalog
