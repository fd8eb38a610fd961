// Several processes, kernels that assert, folders.
#include <fmt/format.h>

#include <array>
#include <charconv>

#include "diagnose/check_table.hpp"

namespace startrail::diagnose {
namespace {

constexpr int k_first_ephemeral_port = 32'768;  // net.ipv4.ip_local_port_range; a person writes a smaller one

bool port(Match& match) {
  if (first_word(match, {"port"}).empty()) match.words["port"] = "PORT";
  return true;
}

bool chosen_port(Match& match) {
  int number = 0;
  const std::string text = first_word(match, {"port"});
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number >= k_first_ephemeral_port;
}

bool collective(Match& match) {
  const std::string work = first_word(match, {"work"}), rank = first_word(match, {"rank"});
  if (!work.empty()) match.words["work_told"] = fmt::format(" (rank {} waited in {})", rank.empty() ? "?" : rank, work);
  return true;
}

bool one_machine(Match& match) {
  if (occurs(match.window, "NCCL Error 2")) {
    match.confidence = 0.6;
    return !occurs(match.nearby, R"(ibv_|NET/IB|socketStart|Connect to|Connection refused|no socket interface)");
  }
  return true;
}

bool infiniband(Match& match) {
  const std::string call = first_word(match, {"call"});
  if (!call.empty()) match.words["ib_told"] = fmt::format(": ibv_{}", call.substr(0, call.find_first_of(" (")));
  if (occurs(match.window, "Cannot allocate memory|MEMLOCK|reg_mr|errno 12\\b"))
    match.words["ib_fix"] =
        "locked memory is limited: `ulimit -l` must say unlimited (limits.conf and a new login; docker `--ulimit "
        "memlock=-1`)";
  else if (occurs(match.window, "timed out|110|error 12|retry|RETRY|RTR"))
    match.words["ib_fix"] =
        "the way between the cards fails: NCCL_IB_GID_INDEX=3 for RoCE v2, NCCL_CROSS_NIC=0, `ib_write_bw` between the "
        "two; switches and cables";
  else
    match.words["ib_fix"] = "`ibv_devinfo` on each machine: the port must be ACTIVE; NCCL_IB_HCA names the card to use";
  return true;
}

bool assertion(Match& match) {
  const std::string what = first_word(match, {"what"});
  if (!what.empty()) match.words["assert_told"] = fmt::format(" (`{}`)", what);
  return true;
}

bool cublas(Match& match) {
  const std::string status = first_word(match, {"status"});
  if (status == "CUBLAS_STATUS_ALLOC_FAILED") match.confidence = 0.55;  // full memory: the rule of memory says so
  return !occurs(match.nearby, "device-side assert|Assertion `");
}

// One NaN now and then is the scaler's search for its step.
bool again_and_again(Match& match) {
  if (occurs(match.window, "grad norm is nan|stopping training|nan values in its|found NaN")) return true;
  if (match.count >= 3) {
    match.confidence = 0.75;
    return true;
  }
  return occurs(match.window, R"(^\s*'?loss'?\s*[:=]\s*nan\s*$)");
}

bool operator_name(Match& match) {
  const std::string name = first_word(match, {"operator"});
  match.words["operator"] = name.empty() ? "an operator of the model" : name;
  return true;
}

bool path(Match& match) {
  const std::string place = first_word(match, {"path"});
  match.words["path"] = place.empty() ? "there" : place;
  return !place.starts_with("/proc/") && !place.starts_with("/sys/") && !place.starts_with("/dev/nvidia");
}

constexpr std::array k_checks{
    NamedCheck{"port", port},
    NamedCheck{"chosen-port", chosen_port},
    NamedCheck{"collective", collective},
    NamedCheck{"one-machine", one_machine},
    NamedCheck{"infiniband", infiniband},
    NamedCheck{"assertion", assertion},
    NamedCheck{"cublas", cublas},
    NamedCheck{"again-and-again", again_and_again},
    NamedCheck{"operator", operator_name},
    NamedCheck{"path", path},
};

}  // namespace

std::span<const NamedCheck> process_checks() {
  return k_checks;
}

}  // namespace startrail::diagnose
