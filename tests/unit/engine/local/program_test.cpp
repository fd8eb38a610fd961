// This test program is also the program that the engine starts again: `unit_engine_local supervise DIRECTORY`.
#include <gtest/gtest.h>

#include <string_view>

#include "supervise/supervise.hpp"

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "supervise") return startrail::supervise::supervise_main(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
