#include <fmt/format.h>
#include <unistd.h>

#include <exception>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/output.hpp"

int main(int argc, char** argv) {
  // Exceptions mean bugs, and end here.
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    return startrail::cli::dispatch(words);
  } catch (const std::exception& bug) {
    startrail::cli::say(
        fmt::format("error: this is a fault of trail's own: {}\nhint: please report it, with the command that led here",
                    bug.what()));
    return 70;
  }
}
