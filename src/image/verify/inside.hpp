// An image's files by the paths that a process inside uses, looked up in its layers without mounting them.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace startrail::image {

class Inside {
 public:
  // Topmost first, as Image::layers.
  explicit Inside(std::vector<std::filesystem::path> layers) : m_layers(std::move(layers)) {}

  // Where the file at this absolute path lies on the host, symbolic links followed as inside; nullopt when there is
  // none, or when links go in a circle.
  [[nodiscard]] std::optional<std::filesystem::path> find(const std::string& path) const;
  [[nodiscard]] const std::vector<std::filesystem::path>& layers() const { return m_layers; }

 private:
  [[nodiscard]] std::optional<std::filesystem::path> here(const std::filesystem::path& path) const;
  std::vector<std::filesystem::path> m_layers;
};

}  // namespace startrail::image
