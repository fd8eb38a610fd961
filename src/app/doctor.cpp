#include "app/doctor.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "app/list_runs.hpp"
#include "base/files.hpp"
#include "machine/machine.hpp"

namespace startrail::app {
namespace {

Result<std::string> standard_input() {
  std::string text;
  std::array<char, 1U << 16U> buffer{};
  for (;;) {
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail(base::errno_error("cannot read standard input", errno));
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
}

}  // namespace

Result<std::vector<diagnose::Finding>> diagnose_log(const std::string& file) {
  const std::string text = TRY(file == "-" ? standard_input() : base::read_file(file));
  // A log may come from elsewhere: what this machine has is no evidence for it.
  return diagnose::diagnose_text(text, file == "-" ? "standard input" : file, {});
}

Result<std::vector<diagnose::Finding>> diagnose_run(const Installation& installation, const std::string& name,
                                                    Reporter& reporter) {
  auto store = TRY(open_runs(installation, reporter));
  const std::string id = TRY(store.find(name));
  const auto text = base::read_file(store.directory(id) / run::k_log_file);
  return diagnose::diagnose_text(text.value_or(std::string()), fmt::format("log of {}", id), {});
}

Json to_json(const std::vector<diagnose::Finding>& findings) {
  Json list = Json::array();
  for (const auto& finding : findings) list.push_back(diagnose::to_json(finding));
  return Json{{"findings", std::move(list)}};
}

}  // namespace startrail::app
