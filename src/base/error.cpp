#include "base/error.hpp"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

namespace startrail::base {

std::string_view name(ErrorCode code) {
  switch (code) {
    case ErrorCode::usage: return "usage";
    case ErrorCode::invalid_input: return "invalid_input";
    case ErrorCode::not_found: return "not_found";
    case ErrorCode::refused: return "refused";
    case ErrorCode::permission: return "permission";
    case ErrorCode::no_space: return "no_space";
    case ErrorCode::network: return "network";
    case ErrorCode::hash_mismatch: return "hash_mismatch";
    case ErrorCode::corrupt: return "corrupt";
    case ErrorCode::unsafe_path: return "unsafe_path";
    case ErrorCode::conflict: return "conflict";
    case ErrorCode::unsupported: return "unsupported";
    case ErrorCode::cancelled: return "cancelled";
    case ErrorCode::internal: return "internal";
  }
  return "internal";
}

int exit_code(ErrorCode code) {
  if (code == ErrorCode::usage) return 2;
  if (code == ErrorCode::internal) return 70;
  return 1;
}

Error errno_error(std::string_view what, int error_number) {
  ErrorCode code = ErrorCode::internal;
  switch (error_number) {
    case ENOSPC:
    case EDQUOT: code = ErrorCode::no_space; break;
    case ENOENT:
    case ENOTDIR: code = ErrorCode::not_found; break;
    case EACCES:
    case EPERM:
    case EROFS: code = ErrorCode::permission; break;
    default: break;
  }
  return error(code, fmt::format("{}: {}", what, std::strerror(error_number)));
}

std::string to_text(const Error& error) {
  std::string text = "error: " + error.message;
  for (const auto& line : error.context) text += "\n  " + line;
  for (const auto& hint : error.hints) text += "\nhint: " + hint;
  return text;
}

}  // namespace startrail::base
