// One blob on its way to a registry.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "image/exchange.hpp"
#include "image/registry/session.hpp"

namespace startrail::image {

struct UploadContent {
  std::optional<std::filesystem::path> file;
  std::string_view text;  // where there is no file
};

struct UploadOptions {
  std::string location;                           // of an upload that was begun already; "" to begin one
  std::function<void(std::uint64_t)> on_bytes{};  // so many more bytes are on their way; any thread
};

// In one request (POST, PUT); in chunks (POST, PATCH …, PUT) where the server refuses so large a body or asks for them
// by OCI-Chunk-Min-Length. One that breaks goes on at the byte that the server names, or else starts again.
// OCI distribution specification 1.1, "Pushing blobs".
// Errors: permission, network, hash_mismatch (the server read other bytes than the digest says).
[[nodiscard]] Result<void> upload_blob(Session& session, const Descriptor& blob, const UploadContent& content,
                                       const UploadOptions& options);

// "0-1023" → 1024: how many bytes a server has. Nothing for what can't be read, and for "0-0", which says both one byte
// and none.
[[nodiscard]] std::optional<std::uint64_t> bytes_in_range(std::string_view header);

}  // namespace startrail::image
