// `trail image push|pull`: an image of the store and its copy in a registry.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "app/installation.hpp"
#include "base/json.hpp"
#include "base/reporter.hpp"
#include "image/image.hpp"
#include "image/oci/export_image.hpp"
#include "image/registry/session.hpp"

namespace startrail::app {

struct ExchangedLayer {
  std::string digest, media_type;
  std::uint64_t size = 0;  // as it travels
  std::string way;         // "uploaded", "mounted", "fetched", or "was there"
};

// A copy that was made.
struct Exchange {
  image::Image image;                  // the one here
  std::string reference, digest;       // in full; of the manifest
  std::vector<ExchangedLayer> layers;  // bottom up
  std::uint64_t bytes = 0;             // of blobs that went over the network
};

struct PushRequest {
  std::string image;      // an id, a prefix of one, or a name
  std::string reference;  // where to, with a tag
  image::Compression compression = image::Compression::zstd;
  image::PlainHttp plain_http = image::PlainHttp::on_loopback;
};
// Errors: invalid_input (the reference), not_found (the image), those of image::export_image.
[[nodiscard]] Result<Exchange> push_image(const Installation& installation, const PushRequest& request,
                                          Reporter& reporter);

struct PullRequest {
  std::string reference;
  std::vector<std::string> names;  // by which it's found, beside the reference
  image::PlainHttp plain_http = image::PlainHttp::on_loopback;
};
// Errors: invalid_input (the reference), those of image::import_image.
[[nodiscard]] Result<Exchange> pull_image(const Installation& installation, const PullRequest& request,
                                          Reporter& reporter);

// {"id", "reference", "digest", "layers": [{"digest", "media_type", "size", "way"}]} and the bytes under `bytes_key`.
[[nodiscard]] Json to_json(const Exchange& exchange, const std::string& bytes_key);

}  // namespace startrail::app
