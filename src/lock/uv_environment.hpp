// The variables uv runs with: the user's own, with the indexes that count put where uv reads them.
// Addresses with credentials travel here, never on a command line.
#pragma once

#include "base/process.hpp"
#include "lock/lock.hpp"
#include "project/requirements.hpp"

namespace startrail::lock {

struct UvIndexes {
  std::string default_index;
  std::vector<std::string> extra_indexes;
  std::vector<std::string> find_links;  // absolute paths and URLs
  IndexSearch search = IndexSearch::first_index;
};

// The project's own index options come before the user's configuration, as pip has it; `more` are the catalog's.
[[nodiscard]] UvIndexes uv_indexes(const IndexConfiguration& configuration, const project::Requirements& needs,
                                   const std::vector<std::string>& more);

[[nodiscard]] base::Environment uv_environment(const base::Environment& host, const UvIndexes& indexes,
                                               const IndexConfiguration& configuration);
// The same for uv inside the sandbox: nothing of the host's but proxies and indexes.
[[nodiscard]] base::Environment contained_uv_environment(const base::Environment& host, const UvIndexes& indexes);

}  // namespace startrail::lock
