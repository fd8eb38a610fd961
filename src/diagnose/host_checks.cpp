// Limits below which a host's numbers count as a fault, and words for what a card is bound to.
#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <cstdlib>

#include "base/units.hpp"
#include "diagnose/check_table.hpp"

namespace startrail::diagnose {
namespace {

constexpr std::uint64_t k_gibibyte = 1ULL << 30U;
constexpr std::uint64_t k_least_disk = 8 * k_gibibyte;  // a CUDA image, and room to work
constexpr std::uint64_t k_least_shm = k_gibibyte;       // container engines give 64 MiB unless asked
constexpr std::uint64_t k_least_memory = k_gibibyte;
constexpr std::uint64_t k_least_memlock = 4 * k_gibibyte;

// True below `limit`; the amount then becomes the word {told}.
bool is_below(Match& match, std::uint64_t limit) {
  const std::uint64_t bytes = std::strtoull(first_word(match, {"bytes"}).c_str(), nullptr, 10);
  match.words["told"] = base::to_text(Bytes{bytes});
  return bytes < limit;
}

bool disk_is_full(Match& match) {
  return is_below(match, k_least_disk);
}
bool shm_is_small(Match& match) {
  return is_below(match, k_least_shm);
}
bool memory_is_short(Match& match) {
  return is_below(match, k_least_memory);
}
bool memlock_is_small(Match& match) {
  return is_below(match, k_least_memlock);
}

bool card_driver(Match& match) {
  const std::string bound = first_word(match, {"bound"});
  if (bound == "nouveau") {
    match.words["bound_told"] = "and nouveau drives it, which can't run CUDA";
    match.words["bound_fix"] =
        "install NVIDIA's driver (Debian: `nvidia-driver` of non-free; Ubuntu: `ubuntu-drivers install`), which keeps "
        "nouveau away, and restart";
  } else if (bound == "vfio-pci") {
    match.words["bound_told"] = "and is set aside for virtual machines (vfio-pci)";
    match.words["bound_fix"] = "give it back to this host: take its id out of vfio-pci's `ids=` option, and restart";
    match.confidence = 0.7;  // it may well be meant so
  } else {
    match.words["bound_told"] = "and no driver is loaded for it";
    match.words["bound_fix"] =
        "install NVIDIA's driver (Debian: `nvidia-driver` of non-free; Ubuntu: `ubuntu-drivers install`); if it is "
        "installed, `modprobe nvidia` says why it won't load (Secure Boot wants its module signed; a new kernel wants "
        "it built anew: `dkms autoinstall`)";
  }
  return true;
}

bool runtime_told(Match& match) {
  const std::string why = first_word(match, {"why"});
  if (occurs(match.nearby, R"(package_manager: apt\b)")) match.words["install"] = "apt-get install -y runc";
  match.words["why_told"] = why.empty() ? "" : fmt::format(" ({}: {})", first_word(match, {"name"}), why);
  return true;
}

constexpr std::array k_checks{
    NamedCheck{"card-driver", card_driver},           NamedCheck{"disk-is-full", disk_is_full},
    NamedCheck{"memlock-is-small", memlock_is_small}, NamedCheck{"memory-is-short", memory_is_short},
    NamedCheck{"runtime-told", runtime_told},         NamedCheck{"shm-is-small", shm_is_small},
};

}  // namespace

std::span<const NamedCheck> host_checks() {
  return k_checks;
}

}  // namespace startrail::diagnose
