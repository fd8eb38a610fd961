#include "app/doctor.hpp"

#include <unistd.h>

#include <array>
#include <cerrno>

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

Json to_json(const std::vector<diagnose::Finding>& findings) {
  Json list = Json::array();
  for (const auto& finding : findings) list.push_back(diagnose::to_json(finding));
  return Json{{"findings", std::move(list)}};
}

}  // namespace startrail::app
