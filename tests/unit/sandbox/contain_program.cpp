// What `trail contain FILE` is to users' runs, this is to the tests: run_contained starts it by STARTRAIL_PROGRAM.
#include <cstdio>
#include <string_view>

#include "sandbox/sandbox.hpp"

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "contain") return startrail::sandbox::contain_main(argv[2]);
  std::fputs("usage: contain_program contain FILE\n", stderr);
  return 2;
}
