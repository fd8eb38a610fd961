// What stands behind a failure: rules over the text of a log, the facts of this machine, and what a project needs.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/json_fwd.hpp"
#include "machine/host_facts.hpp"
#include "machine/machine.hpp"

namespace startrail::diagnose {

struct Evidence {
  std::string source;    // "train.log", "host"
  std::size_t line = 0;  // counted from 1; 0: not a line of a file
  std::string text;      // at most 400 bytes of it
};

struct Finding {
  std::string cause;    // a class of docs/reference/doctor.md: "cuda-oom"
  std::string rule;     // which rule of src/diagnose/rules found it
  std::string summary;  // one sentence
  // How sure the cause is, 0 … 1. From 0.85 on the text is decisive; below 0.7 it is a guess, and is called so.
  double confidence = 0;
  std::vector<Evidence> evidence;
  std::vector<std::string> fixes;  // what to do here, the best first
  // Of what is wrong with this host: the fix as commands for a root shell, in their order; none when it can't be said.
  std::vector<std::string> commands = {};
};
[[nodiscard]] Json to_json(const Finding& finding);
// "certain", "likely" or "a guess".
[[nodiscard]] std::string_view certainty(double confidence);

// What is known beside the text. Fixes are worded for it.
struct Circumstances {
  const machine::Machine* machine = nullptr;  // nullptr: the text comes from elsewhere
};

// The causes that the text shows, the best first; none is an answer too. Lines end with \n, \r or both (progress bars).
// 10 MB take about a tenth of a second. `source` is what the evidence calls the text.
// Errors: corrupt, when a rule can't be read (a fault of the program's).
[[nodiscard]] Result<std::vector<Finding>> diagnose_text(std::string_view text, std::string_view source,
                                                         const Circumstances& circumstances);

// What is wrong with a host, by its facts (machine::host_facts) and its kernel's messages; none on a healthy one.
// Errors: as `diagnose_text`.
[[nodiscard]] Result<std::vector<Finding>> diagnose_host(const std::vector<machine::Fact>& facts,
                                                         std::string_view kernel_messages,
                                                         const Circumstances& circumstances);

// Why a project can't run here, from the refusal that reading it or choosing for it gave: the refusal's own words are
// the evidence, its hints the first fixes. Of a kind that no rule knows, the class is "project". Errors: as above.
[[nodiscard]] Result<Finding> diagnose_refusal(const Error& refusal, const Circumstances& circumstances);

}  // namespace startrail::diagnose
