// Names of images in registries: "[docker://][host[:port]/]path[:tag][@sha256:…]".
#pragma once

#include <string>
#include <string_view>

#include "base/error.hpp"

namespace startrail::image {

struct Reference {
  std::string host;        // "localhost:5000"; "docker.io" where none was named
  std::string repository;  // "library/python"
  std::string tag;         // "latest" where neither tag nor digest was named; "" with a digest alone
  std::string digest;      // "sha256:…" or ""

  // In full: "docker.io/library/python:3.12".
  [[nodiscard]] std::string text() const;
  // Without tag and digest, as messages about a repository say it.
  [[nodiscard]] std::string place() const { return host + "/" + repository; }
  // What the registry knows the manifest by: the digest, else the tag.
  [[nodiscard]] const std::string& wanted() const { return digest.empty() ? tag : digest; }
  bool operator==(const Reference&) const = default;
};

// As docker reads them: the first part is a host when it has a dot, a colon or a capital, or is "localhost".
// Rules: OCI distribution specification 1.1, "Pulling manifests"; a name has 255 letters at most.
// Errors: invalid_input, naming the part that's wrong.
[[nodiscard]] Result<Reference> parse_reference(std::string_view text);

// It says by itself where it is from ("docker://…", "host/path", "user/path"): neither an image's id nor "torch:2.6".
[[nodiscard]] bool names_a_registry(std::string_view text);

// Where the registry of this name answers: Docker Hub has a host of its own for that.
[[nodiscard]] std::string api_host(const std::string& host);

// localhost, 127.0.0.0/8 or [::1], with or without a port.
[[nodiscard]] bool is_loopback(std::string_view host);

}  // namespace startrail::image
