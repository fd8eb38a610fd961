// A temporary folder for one build, gone with its owner.
#pragma once

#include <filesystem>
#include <utility>

#include "base/error.hpp"
#include "base/files.hpp"

namespace startrail::lock {

class Workbench {
 public:
  static Result<Workbench> make(const std::filesystem::path& state_root) {
    const std::filesystem::path parent = state_root / "cache" / "builds";
    TRY(base::make_directories(parent));
    return Workbench(TRY(base::make_temporary_directory(parent, "build")));
  }
  Workbench(Workbench&& other) noexcept : m_path(std::exchange(other.m_path, {})) {}
  Workbench& operator=(Workbench&&) = delete;
  ~Workbench() {
    if (!m_path.empty()) (void)base::remove_tree(m_path);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return m_path; }

 private:
  explicit Workbench(std::filesystem::path path) : m_path(std::move(path)) {}
  std::filesystem::path m_path;
};

}  // namespace startrail::lock
