#include "run/run_id.hpp"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cstdint>
#include <random>
#include <string_view>

namespace startrail::run {
namespace {

constexpr std::array<std::string_view, 48> k_adjectives{
    "amber", "bold",  "brave", "bright", "brisk",  "calm",   "clear",  "clever", "cosmic", "crisp",   "deep",  "eager",
    "early", "fair",  "fleet", "fresh",  "gentle", "glad",   "golden", "grand",  "green",  "happy",   "hardy", "humble",
    "keen",  "kind",  "light", "lively", "lucid",  "lucky",  "mellow", "misty",  "noble",  "patient", "polar", "proud",
    "quick", "quiet", "rapid", "ready",  "silent", "silver", "smooth", "solar",  "steady", "sunny",   "swift", "warm"};
constexpr std::array<std::string_view, 48> k_nouns{
    "alder",  "aspen",   "badger",  "beacon", "birch",  "brook",  "canyon", "cedar", "cloud",  "comet",
    "coral",  "crane",   "delta",   "dune",   "eagle",  "ember",  "falcon", "fern",  "finch",  "forest",
    "garnet", "glacier", "harbor",  "heron",  "island", "jasper", "lagoon", "lark",  "maple",  "meadow",
    "meteor", "nebula",  "ocean",   "orbit",  "osprey", "otter",  "pebble", "pine",  "quartz", "raven",
    "reef",   "river",   "sparrow", "spruce", "summit", "tundra", "valley", "willow"};

std::uint64_t random_number() {
  std::uint64_t number = 0;
  if (::getrandom(&number, sizeof number, 0) == static_cast<ssize_t>(sizeof number)) return number;
  return std::random_device{}();
}

}  // namespace

std::string random_run_id() {
  const std::uint64_t number = random_number();
  return fmt::format("{}-{}-{:04x}", k_adjectives.at((number >> 16U) % k_adjectives.size()),
                     k_nouns.at((number >> 32U) % k_nouns.size()), number & 0xffffU);
}

}  // namespace startrail::run
