// Work that goes on after this process: bytecode, at idle priority.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "app/installation.hpp"
#include "image/image.hpp"

namespace startrail::app {

// When background work may begin.
enum class Begin {
  at_once,
  after_first_steps,  // a command is about to start: for its first moments the machine is its own. Cores share caches,
                      // memory and often execution units: at idle priority too, compiling made a first optimizer step
                      // take 9 s instead of 5.
};

// Starts `trail bytecode IMAGE` in its own session with idle CPU and disk priority, and returns at once.
// Nothing is started when the image has its bytecode. Failing is silent: it only makes later starts slower.
void compile_bytecode_in_background(const Installation& installation, const image::Image& image, Begin begin);

// The body of the hidden `trail bytecode IMAGE [SECONDS]` verb, which begins after so many seconds.
[[nodiscard]] Result<void> compile_bytecode(const Installation& installation, const std::string& image_id,
                                            std::chrono::seconds delay);

// Why a detached run would not outlive the caller's logout, with the command that changes it; nullopt when it does.
// Read from logind's configuration (KillUserProcesses=, logind.conf(5)) and its record of lingering users.
[[nodiscard]] std::optional<std::string> ends_with_logout(const Installation& installation,
                                                          const std::filesystem::path& root = "/");

}  // namespace startrail::app
