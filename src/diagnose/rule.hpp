// A rule as rules/*.toml gives it.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "diagnose/pattern.hpp"

namespace startrail::diagnose {

enum class About { log, host, project };  // what a rule is held against

struct Rule {
  std::string name, cause;
  About about = About::log;
  double confidence = 0;
  std::vector<std::string> texts;  // a line without any of these is not looked at
  Pattern pattern;
  std::size_t lines = 1, before = 0;   // how many lines the pattern sees: from the one with the text on, and before
  std::vector<Pattern> with, without;  // must, must not occur within `k_nearby_lines`
  std::string check;                   // the name of a check in checks.cpp, "" for none
  std::vector<std::string> explains;   // rules whose findings are consequences of this one
  std::string summary;                 // "{capture}" stands for what was found
  std::vector<std::string> fixes;      // likewise
  std::vector<std::string> commands;   // likewise: of the fix, for a root shell; only of hosts
  std::vector<std::string> examples, not_examples;  // texts of which the first finding is, or no finding is, this rule
};

// All of them, read and compiled once. Errors: corrupt, naming file, rule and field.
[[nodiscard]] Result<const std::vector<Rule>*> rules();

}  // namespace startrail::diagnose
