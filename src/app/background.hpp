// Work that goes on after this process: bytecode, at idle priority.
#pragma once

#include <optional>
#include <string>

#include "app/installation.hpp"
#include "image/image.hpp"

namespace startrail::app {

// Starts `trail bytecode IMAGE` in its own session with idle CPU and disk priority, and returns at once.
// Nothing is started when the image has its bytecode. Failing is silent: it only makes later starts slower.
void compile_bytecode_in_background(const Installation& installation, const image::Image& image);

// The body of the hidden `trail bytecode IMAGE` verb.
[[nodiscard]] Result<void> compile_bytecode(const Installation& installation, const std::string& image_id);

// Why a detached run would not outlive the caller's logout, with the command that changes it; nullopt when it does.
// Read from logind's configuration (KillUserProcesses=, logind.conf(5)) and its record of lingering users.
[[nodiscard]] std::optional<std::string> ends_with_logout(const Installation& installation,
                                                          const std::filesystem::path& root = "/");

}  // namespace startrail::app
