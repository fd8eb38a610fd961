// What a Python source imports.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "project/python_tokens.hpp"

namespace startrail::project {

enum class Need {
  required,
  optional,  // inside a `try` whose failure to import is handled
};

struct Import {
  std::string module;  // "google.cloud.storage" for `from google.cloud import storage`
  int line = 0;
  Need need = Need::required;
};

// Absolute imports in the order of the text; those under `if TYPE_CHECKING:` and relative ones are left out.
[[nodiscard]] std::vector<Import> imports(std::string_view source);

// Has the source an `if __name__ == "__main__":`?
[[nodiscard]] bool has_main_guard(std::string_view source);

}  // namespace startrail::project
