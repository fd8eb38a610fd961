// Makes (or finds) the base that tests run containers on, and prints its root: test_base FOLDER [SUITE] [PACKAGE…].
// FOLDER is a store; one made by an earlier run or another suite is used as it is.
#include <cstdio>
#include <string>
#include <vector>

#include "base/reporter.hpp"
#include "image/image.hpp"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: test_base FOLDER [SUITE] [PACKAGE...]\n", stderr);
    return 2;
  }
  const std::string suite = argc > 2 ? argv[2] : "bookworm";
  const std::vector<std::string> packages(argv + (argc > 3 ? 3 : argc), argv + argc);
  startrail::base::SilentReporter reporter;
  const auto made = startrail::image::ensure_base(argv[1], startrail::image::base_recipe(suite, packages), reporter);
  if (!made) {
    std::fprintf(stderr, "%s\n", to_text(made.error()).c_str());
    return 1;
  }
  std::printf("%s\n", made->root.c_str());
  return 0;
}
