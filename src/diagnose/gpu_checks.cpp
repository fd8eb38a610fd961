// Drivers, cards, their faults, and how they come into a container.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "diagnose/check_table.hpp"

namespace startrail::diagnose {
namespace {

// Compute capabilities times ten: 7.5 is 75, 12.0 is 120.
using Capability = int;
constexpr Capability k_hopper = 90;
constexpr Capability k_ampere = 80;

constexpr std::string_view k_old_cards =
    R"(\b(K80|K40|K20\w?|M60|M40|M4|P100|P40|P4|P6|V100)\b|GTX ?(6|7|9|10)\d\d|TITAN (X|V|Xp|Black)|Quadro ([KMP]\d|GP100)|sm_[3-6]\d\b|sm_70\b|capability [3-6]\.\d|(Pascal|Maxwell|Kepler))";
constexpr std::string_view k_new_cards =
    R"(RTX ?(PRO ?)?[56]0[5-9]0|RTX ?PRO|\b(G?B[123]00|GH200|H100|H200|H20|H800|L40S?|L4|RTX 40[5-9]0)\b|sm_(89|9\d|1\d\d)\b|(Blackwell|Hopper))";

std::optional<Capability> capability_in(const std::string& text) {
  int major = 0, minor = 0;
  const std::size_t dot = text.find('.');
  const std::string digits = dot == std::string::npos ? text : text.substr(0, dot);
  if (std::from_chars(digits.data(), digits.data() + digits.size(), major).ec != std::errc()) return std::nullopt;
  if (dot == std::string::npos) return major;
  std::from_chars(text.data() + dot + 1, text.data() + text.size(), minor);
  return major * 10 + minor;
}

std::optional<Capability> of_match(const Match& match) {
  return capability_in(first_word(match, {"sm", "sm2", "sm3", "dotted", "dotted2", "arch"}));
}

std::optional<Capability> of_machine(const Match& match) {
  if (match.circumstances.machine == nullptr || match.circumstances.machine->gpus.empty()) return std::nullopt;
  const auto& gpu = match.circumstances.machine->gpus.front();
  return gpu.compute_major * 10 + gpu.compute_minor;
}

std::string dotted(Capability capability) {
  return fmt::format("{}.{}", capability / 10, capability % 10);
}

// "supports CUDA capabilities sm_50 sm_60 …": those that the build has, lowest and highest.
std::optional<std::pair<Capability, Capability>> supported(std::string_view window) {
  std::size_t at = window.find("supports CUDA capabilities");
  if (at == std::string_view::npos) return std::nullopt;
  std::optional<std::pair<Capability, Capability>> range;
  while ((at = window.find("sm_", at)) != std::string_view::npos) {
    at += 3;
    const auto found = capability_in(std::string(window.substr(at, window.find_first_not_of("0123456789", at) - at)));
    if (!found) continue;
    if (!range) range.emplace(*found, *found);
    range->first = std::min(range->first, *found);
    range->second = std::max(range->second, *found);
  }
  return range;
}

// Without the build's own list: builds stop at Hopper when the card is newer, and drop what is older than Turing.
bool is_newer_than_build(Capability capability, std::string_view window) {
  if (const auto range = supported(window)) return capability > range->second;
  return capability >= k_ampere;
}

bool found_cuda(Match& match) {
  const std::string found = first_word(match, {"found"});
  int version = 0;
  if (std::from_chars(found.data(), found.data() + found.size(), version).ec == std::errc() && version >= 1000)
    match.words["found_cuda"] = fmt::format(" (it runs CUDA up to {}.{})", version / 1000, version % 1000 / 10);
  return true;
}

void tell_card(Match& match) {
  if (const auto capability = of_machine(match))
    match.words["card_told"] = fmt::format(" (capability {})", dotted(*capability));
}

bool card_is_old(Match& match) {
  tell_card(match);
  if (const auto capability = of_machine(match)) return *capability < k_ampere - 5;
  return occurs(match.nearby, k_old_cards) && !occurs(match.nearby, k_new_cards);
}

bool card_is_new(Match& match) {
  tell_card(match);
  if (of_machine(match)) return !card_is_old(match);
  if (occurs(match.nearby, k_new_cards)) match.confidence = 0.85;
  return !(occurs(match.nearby, k_old_cards) && !occurs(match.nearby, k_new_cards));
}

bool capability_new(Match& match) {
  const auto capability = of_match(match);
  if (!capability || !is_newer_than_build(*capability, match.window)) return false;
  match.words["capability"] = dotted(*capability);
  return true;
}

bool capability_old(Match& match) {
  const auto capability = of_match(match);
  if (!capability) return true;  // the text itself says "too old", or names a minimum
  match.words["capability_told"] = fmt::format(" (capability {})", dotted(*capability));
  return !is_newer_than_build(*capability, match.window) && *capability < k_hopper;
}

struct XidMeaning {
  int number;
  std::string_view meaning, fix;
};
constexpr std::string_view k_the_programs_own =
    "most often the program's own fault (an illegal access): compute-sanitizer, or CUDA_LAUNCH_BLOCKING=1; if several "
    "programs get it on this card only, the card";
constexpr std::string_view k_memory =
    "`nvidia-smi -q -d ECC,ROW_REMAPPER`: reset the card (`nvidia-smi -r`) or restart the machine, so that the bad row "
    "is replaced; if it comes again, have the card replaced";
constexpr std::string_view k_hardware =
    "restart the machine; then power, seating, temperature (`nvidia-smi -q -d POWER,TEMPERATURE`); if it comes again, "
    "have the card replaced";
// NVIDIA's list of Xid errors.
constexpr std::array k_xids{
    XidMeaning{13, "an exception of the graphics engine", k_the_programs_own},
    XidMeaning{31, "a page fault of the GPU's memory management", k_the_programs_own},
    XidMeaning{43, "the GPU stopped processing", k_the_programs_own},
    XidMeaning{45, "work was ended early, as a consequence of another error", "look at the error before it"},
    XidMeaning{48, "an uncorrectable (double bit) ECC error", k_memory},
    XidMeaning{61, "an internal microcontroller breakpoint", k_hardware},
    XidMeaning{62, "an internal microcontroller halt", k_hardware},
    XidMeaning{63, "a row of memory is to be replaced", k_memory},
    XidMeaning{64, "a row of memory could not be replaced", k_memory},
    XidMeaning{74, "an NVLink error",
               "`nvidia-smi nvlink -e`; reset the cards that are linked; if it comes again, bridge or card"},
    XidMeaning{79, "the GPU has fallen off the bus", k_hardware},
    XidMeaning{92, "many single bit ECC errors", k_memory},
    XidMeaning{94, "a contained ECC error", k_memory},
    XidMeaning{95, "an uncontained ECC error", k_memory},
    XidMeaning{109, "a context switch timed out", k_the_programs_own},
    XidMeaning{119, "the GPU's system processor (GSP) didn't answer",
               "reset the card or restart; a newer driver, or the GSP off: NVreg_EnableGpuFirmware=0"},
    XidMeaning{120, "an error of the GPU's system processor (GSP)",
               "reset the card or restart; a newer driver, or the GSP off: NVreg_EnableGpuFirmware=0"},
    XidMeaning{140, "an unrecovered ECC error", k_memory},
    XidMeaning{154, "the GPU asks for recovery", "reset the card (`nvidia-smi -r`) or restart the machine"},
};

bool xid(Match& match) {
  int number = 0;
  const std::string text = first_word(match, {"xid"});
  std::from_chars(text.data(), text.data() + text.size(), number);
  if (number == 0 && occurs(match.window, "off the bus|GPU is lost|device handle for GPU")) number = 79;
  if (number == 0 && occurs(match.window, "ECC")) number = 48;
  const auto known = std::ranges::find(k_xids, number, &XidMeaning::number);
  match.words["xid_fix"] =
      known != k_xids.end() ? known->fix : "see what NVIDIA's list of Xid errors says of this number";
  if (number > 0)
    match.words["xid_told"] =
        fmt::format(": Xid {}{}", number, known != k_xids.end() ? fmt::format(", {}", known->meaning) : "");
  return true;
}

bool ordinal(Match& match) {
  if (occurs(match.nearby, R"(\bMIG\b)")) match.confidence = 0.8;
  return true;
}

bool cdi(Match& match) {
  if (!first_word(match, {"old"}).empty()) {
    match.words["cdi_told"] = "this podman is too old to know CDI names (4.1.0 is the first)";
    match.words["cdi_fix"] = "a newer podman, or `--runtime nvidia` in CDI mode, or the device nodes by `--device`";
    return true;
  }
  const std::string device = first_word(match, {"device"});
  match.words["cdi_told"] = device.empty()
                                ? "the CDI specification can't be used"
                                : fmt::format("no CDI specification with {} lies where the engine looks", device);
  match.words["cdi_fix"] =
      "the folders are /etc/cdi and /var/run/cdi (/run/cdi): tell the engine with `--cdi-spec-dir=/run/cdi`, or write "
      "it to /etc/cdi";
  return true;
}

// A build covers cards from its first architecture on; it is too new for those before, too old for the others.
bool card_older_than_build(Match& match) {
  const auto card = capability_in(first_word(match, {"arch"})), first = capability_in(first_word(match, {"first"}));
  return card && first && *card < *first;
}
bool card_newer_than_build(Match& match) {
  std::string first = first_word(match, {"first"});
  if (first.starts_with("sm_")) first.erase(0, 3);
  const auto card = capability_in(first_word(match, {"arch"})), from = capability_in(first);
  return card && from && *card > *from;
}

constexpr std::array k_checks{
    NamedCheck{"card-newer-than-build", card_newer_than_build},
    NamedCheck{"card-older-than-build", card_older_than_build},
    NamedCheck{"found-cuda", found_cuda},
    NamedCheck{"card-is-new", card_is_new},
    NamedCheck{"card-is-old", card_is_old},
    NamedCheck{"capability-new", capability_new},
    NamedCheck{"capability-old", capability_old},
    NamedCheck{"xid", xid},
    NamedCheck{"ordinal", ordinal},
    NamedCheck{"cdi", cdi},
};

}  // namespace

std::span<const NamedCheck> gpu_checks() {
  return k_checks;
}

}  // namespace startrail::diagnose
