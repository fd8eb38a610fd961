// A regular expression of PCRE2, compiled for the machine.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace startrail::diagnose {

using Captures = std::map<std::string, std::string, std::less<>>;  // named groups that took part

struct Found {
  std::size_t offset = 0, length = 0;
  Captures captures;
};

class Pattern {
 public:
  // Errors: corrupt, with the position.
  [[nodiscard]] static Result<Pattern> compile(std::string_view expression);

  // The first place in `text`, which is taken as bytes. A text that would take too many steps counts as none.
  [[nodiscard]] std::optional<Found> find(std::string_view text) const;

 private:
  struct Code;
  explicit Pattern(std::shared_ptr<const Code> code) : m_code(std::move(code)) {}
  std::shared_ptr<const Code> m_code;
};

}  // namespace startrail::diagnose
