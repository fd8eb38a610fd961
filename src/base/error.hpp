// Errors as values. Every function that can fail for a reason outside the program returns Result<T>;
// exceptions mean bugs and are caught in main.
#pragma once

#include <expected>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace startrail::base {

// Stable names for what went wrong; `exit_code` maps each to the process's exit status.
enum class ErrorCode {
  usage,          // wrong flag or argument
  invalid_input,  // a file or value of the user's that can't be read as what it should be
  not_found,      // a file, run, image or program that isn't there
  refused,        // a combination that cannot work on this machine, or can't be resolved
  permission,     // the operating system said no
  no_space,       // disk or memory is not enough
  network,        // a server could not be reached, or answered with an error
  hash_mismatch,  // bytes differ from what the lock promised
  corrupt,        // a file of a known format that breaks its rules (wheel, lock, manifest, database)
  unsafe_path,    // an archive entry that would leave its root
  conflict,       // two things claim the same name or state
  unsupported,    // right input, but this build or machine can't do it
  cancelled,      // the user or a signal ended it
  internal,       // a fault of ours
};

[[nodiscard]] std::string_view name(ErrorCode code);

// 1 for what the user can fix, 2 for wrong usage, 70 for a fault of ours.
[[nodiscard]] int exit_code(ErrorCode code);

// One sentence for the user, then why, then what to do; `detail` goes to logs only.
struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;               // "torch 2.13.0 needs NVIDIA driver 580 or newer; this machine has 535.183"
  std::vector<std::string> context;  // "read from requirements.txt:3": what was being done, innermost first
  std::vector<std::string> hints;    // "`trail run --framework torch==2.10.0` is the newest that works here"
  std::string detail;

  Error& with_context(std::string text) & {
    context.push_back(std::move(text));
    return *this;
  }
  Error&& with_context(std::string text) && {
    context.push_back(std::move(text));
    return std::move(*this);
  }
  Error& with_hint(std::string text) & {
    hints.push_back(std::move(text));
    return *this;
  }
  Error&& with_hint(std::string text) && {
    hints.push_back(std::move(text));
    return std::move(*this);
  }
};

template <class T>
using Result = std::expected<T, Error>;

// return fail(ErrorCode::not_found, fmt::format("no image {}", id)).with_hint(...) needs an Error; hence both forms.
[[nodiscard]] inline Error error(ErrorCode code, std::string message) {
  return Error{.code = code, .message = std::move(message), .context = {}, .hints = {}, .detail = {}};
}
[[nodiscard]] inline std::unexpected<Error> fail(ErrorCode code, std::string message) {
  return std::unexpected(error(code, std::move(message)));
}
[[nodiscard]] inline std::unexpected<Error> fail(Error reason) {
  return std::unexpected(std::move(reason));
}

// An Error from errno: "cannot open /x: No such file or directory"; ENOSPC/EDQUOT become no_space,
// ENOENT not_found, EACCES/EPERM/EROFS permission, anything else internal.
[[nodiscard]] Error errno_error(std::string_view what, int error_number);

// The three-part text a terminal shows ("error: …", "  context", "hint: …"), lines joined by '\n', no colour.
[[nodiscard]] std::string to_text(const Error& error);

}  // namespace startrail::base

namespace startrail {
using base::Error;
using base::ErrorCode;
using base::Result;
}  // namespace startrail

// Value of a Result, or return its error from the enclosing function (GNU statement expression).
#define TRY(...)                                                              \
  ({                                                                          \
    auto&& try_result_ = (__VA_ARGS__);                                       \
    if (!try_result_) return std::unexpected(std::move(try_result_).error()); \
    std::move(try_result_).value();                                           \
  })

// The same, adding a line of context on the way up.
#define TRY_CONTEXT(expression, text)                                                                         \
  ({                                                                                                          \
    auto&& try_result_ = (expression);                                                                        \
    if (!try_result_) return std::unexpected(std::move(std::move(try_result_).error()).with_context((text))); \
    std::move(try_result_).value();                                                                           \
  })
