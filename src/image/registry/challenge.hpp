// What a registry asks for when it answers 401.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace startrail::image {

struct Challenge {
  std::string scheme;                             // in lower case: "bearer", "basic"
  std::map<std::string, std::string> parameters;  // names in lower case: realm, service, scope
  bool operator==(const Challenge&) const = default;
};

// WWW-Authenticate (RFC 9110, 11.6.1), which may hold several. What can't be read is left out.
[[nodiscard]] std::vector<Challenge> parse_challenges(std::string_view header);

}  // namespace startrail::image
