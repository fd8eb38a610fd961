#include "image/oci/export_image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>

#include "base/files.hpp"
#include "base/hash.hpp"
#include "base/json.hpp"
#include "image/image_folder.hpp"
#include "image/oci/compression.hpp"
#include "image/oci/documents.hpp"
#include "image/oci/layer_plan.hpp"
#include "image/oci/statements.hpp"
#include "image/oci/write_layer.hpp"

namespace startrail::image {
namespace {

// What decides a layer's bytes beside its content. Changes whenever the same content would give other bytes.
constexpr std::string_view k_writer = "1";

std::string_view name_of(Compression compression) {
  switch (compression) {
    case Compression::zstd: return "zstd";
    case Compression::gzip: return "gzip";
    case Compression::none: return "none";
  }
  return "";
}

class Export {
 public:
  Export(const Store& store, ImageTarget& target, const ExportOptions& options, Reporter& reporter)
      : m_store(store), m_target(target), m_options(options), m_reporter(reporter) {}

  Result<Descriptor> run(const std::string& name) {
    const Image image = TRY(open(m_store.root(), name));
    m_id = image.id;
    m_environment = image.environment;
    m_manifest = TRY(read_manifest(m_store, m_id));
    m_details = TRY(base::read_json_file(m_store.image(m_id) / "details.json"));
    m_layers = TRY(plan_layers(m_store, m_id, m_manifest));
    m_reporter.step(fmt::format("writing image {} to {}", m_id.substr(0, 19), m_target.name()));
    TRY(write_layers());
    return write_documents();
  }

 private:
  // ---- layers ----
  [[nodiscard]] std::size_t cores() const {
    return m_options.workers > 0 ? static_cast<std::size_t>(m_options.workers)
                                 : std::max(1U, std::thread::hardware_concurrency());
  }

  // Several at once: of each, reading and hashing is one thread's work, packing is everybody's.
  Result<void> write_layers() {
    m_written.resize(m_layers.size());
    for (const PlannedLayer& layer : m_layers) m_total += layer.size;
    std::vector<std::size_t> order(m_layers.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater<>(), [&](std::size_t i) { return m_layers[i].size; });
    const std::size_t at_once = std::clamp<std::size_t>(cores() / 2 + 1, 1, std::min<std::size_t>(8, order.size()));
    m_pieces = std::max<std::size_t>(2, 2 * cores() / at_once);
    Workers workers(cores());
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < order.size() && !has_failed(); i = next++) {
        auto written = send_layer(m_layers[order[i]], workers);
        if (written)
          m_written[order[i]] = std::move(*written);
        else
          note_failure(std::move(written.error()));
      }
    };
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < at_once; ++i) threads.emplace_back(work);
    threads.clear();
    if (m_failure) return base::fail(std::move(*m_failure));
    return {};
  }

  Result<WrittenLayer> send_layer(const PlannedLayer& layer, Workers& workers) {
    const std::string key =
        base::sha256_hex(fmt::format("{}\n{}\n{}\n", k_writer, name_of(m_options.compression), layer.key));
    if (auto known = recall(key); known && TRY(m_target.has(known->blob))) {
      show(layer.size);
      return with_title(std::move(*known), layer);
    }
    const std::string staging_key = "export-" + key;
    const base::FileLock lock = TRY(m_store.lock(staging_key));
    const fs::path staging = m_store.staging(staging_key);
    TRY(base::make_directories(staging));
    auto sent = write_and_put(layer, staging / "layer", workers);
    (void)base::remove_tree(staging);
    if (sent) TRY(remember(key, *sent));
    return sent;
  }

  Result<WrittenLayer> write_and_put(const PlannedLayer& layer, const fs::path& file, Workers& workers) {
    auto written = with_title(TRY(write_layer(layer, file,
                                              {.compression = m_options.compression,
                                               .pieces = m_pieces,
                                               .on_bytes = [&](std::uint64_t bytes) { show(bytes); }},
                                              workers)),
                              layer);
    const bool is_there = TRY(m_target.has(written.blob));
    if (!is_there) TRY(m_target.put_file(written.blob, file));
    return written;
  }

  static WrittenLayer with_title(WrittenLayer layer, const PlannedLayer& planned) {
    layer.blob.annotations = {{std::string(k_layer_title), planned.title}};
    return layer;
  }

  [[nodiscard]] fs::path memory_of(const std::string& key) const {
    return m_store.folder("exported") / (key + ".json");
  }

  std::optional<WrittenLayer> recall(const std::string& key) const {
    const auto json = base::read_json_file(memory_of(key));
    if (!json) return std::nullopt;
    WrittenLayer layer{.blob = {.media_type = std::string(layer_media_type(m_options.compression)),
                                .digest = base::string_at(*json, "digest"),
                                .size = static_cast<std::uint64_t>(base::integer_at(*json, "size"))},
                       .diff_id = base::string_at(*json, "diff_id")};
    if (!is_digest(layer.blob.digest) || !is_digest(layer.diff_id)) return std::nullopt;
    return layer;
  }

  Result<void> remember(const std::string& key, const WrittenLayer& layer) const {
    return base::write_file_atomic(
        memory_of(key), base::to_pretty_text(Json{
                            {"digest", layer.blob.digest}, {"size", layer.blob.size}, {"diff_id", layer.diff_id}}));
  }

  [[nodiscard]] bool has_failed() {
    const std::scoped_lock lock(m_mutex);
    return m_failure.has_value();
  }
  void note_failure(Error reason) {
    const std::scoped_lock lock(m_mutex);
    if (!m_failure) m_failure = std::move(reason);
  }
  void show(std::uint64_t bytes) {
    m_done += bytes;
    m_reporter.progress(
        {.what = "writing layers", .done = m_done, .total = std::max(m_total, m_done.load()), .detail = {}});
  }

  // ---- documents ----
  [[nodiscard]] std::vector<std::string> diff_ids() const {
    std::vector<std::string> ids;
    for (const WrittenLayer& layer : m_written) ids.push_back(layer.diff_id);
    return ids;
  }

  // What a pull needs to make the same image again. Neither times nor where it came from are a part of an image.
  [[nodiscard]] Json labels() const {
    Json details = m_details;
    details.erase("created");
    details.erase("origin");
    return {{k_label_manifest, manifest_text(m_manifest)},
            {k_label_details, base::to_compact_text(details)},
            {k_label_layers, layers_digest(diff_ids())}};
  }

  [[nodiscard]] Json own_config() const {
    Json environment = Json::array();
    for (const auto& [name, value] : m_environment) environment.push_back(name + "=" + value);
    Json history = Json::array();
    for (const PlannedLayer& layer : m_layers) history.push_back({{"created_by", "startrail: " + layer.title}});
    return {
        {"architecture", own_architecture()},
        {"os", "linux"},
        {"config",
         {{"Env", std::move(environment)}, {"Cmd", {"/bin/bash"}}, {"WorkingDir", "/workspace"}, {"Labels", labels()}}},
        {"rootfs", {{"type", "layers"}, {"diff_ids", diff_ids()}}},
        {"history", std::move(history)}};
  }

  // As it came, with the layers as they are written here: tar has more ways than one to say the same.
  Result<Json> foreign_config() const {
    Json config = TRY(base::read_json_file(m_store.image(m_id) / "config.json"));
    config["rootfs"] = {{"type", "layers"}, {"diff_ids", diff_ids()}};
    return config;
  }

  [[nodiscard]] std::string title() const {
    const std::string framework = base::string_at(m_details, "framework");
    const std::string what =
        framework.empty() ? "" : fmt::format("{} {}, ", framework, base::string_at(m_details, "framework_version"));
    return m_manifest.is_foreign() ? "image " + m_id : fmt::format("{}Python {}", what, m_manifest.python);
  }

  [[nodiscard]] std::map<std::string, std::string> annotations() const {
    std::map<std::string, std::string> result{{"org.opencontainers.image.title", title()},
                                              {"org.startrail.image.id", m_id}};
    if (const auto version = base::string_at(m_details, "framework_version"); !version.empty())
      result.emplace("org.opencontainers.image.version", version);
    if (!m_written.empty() && !m_manifest.is_foreign())
      result.emplace("org.startrail.base", "sha256:" + m_manifest.base_digest);
    return result;
  }

  Result<Descriptor> write_documents() {
    const std::string config = base::to_compact_text(m_manifest.is_foreign() ? TRY(foreign_config()) : own_config());
    const Descriptor config_blob = descriptor_of(k_config_type, config);
    TRY(put_blob(config_blob, config));
    std::vector<Descriptor> blobs;
    for (const WrittenLayer& layer : m_written) blobs.push_back(layer.blob);
    const ManifestText manifest = manifest_of(config_blob, blobs, annotations());
    TRY(m_target.put_manifest(manifest, ImageTarget::Naming::tagged));
    const Descriptor own{.media_type = manifest.media_type, .digest = manifest.digest, .size = manifest.text.size()};
    TRY(put_blob(empty_blob(), std::string(k_empty_text)));
    TRY(put_statement(own, k_sbom_type, bill_of_materials(m_store, m_id, m_manifest, m_details)));
    TRY(put_statement(own, k_provenance_type, provenance(m_id, m_manifest, m_details, title(), own)));
    return own;
  }

  Result<void> put_blob(const Descriptor& blob, const std::string& text) {
    if (TRY(m_target.has(blob))) return {};
    return m_target.put_text(blob, text);
  }

  Result<void> put_statement(const Descriptor& subject, std::string_view type, const Json& content) {
    const Statement statement = statement_about(subject, type, content);
    TRY(put_blob(statement.blob, statement.text));
    return m_target.put_referrer(statement.manifest, subject, statement.own);
  }

  const Store& m_store;
  ImageTarget& m_target;
  const ExportOptions& m_options;
  Reporter& m_reporter;
  std::string m_id;
  base::Environment m_environment;
  Manifest m_manifest;
  Json m_details;
  std::vector<PlannedLayer> m_layers;
  std::vector<WrittenLayer> m_written;
  std::size_t m_pieces = 2;
  std::uint64_t m_total = 0;
  std::atomic<std::uint64_t> m_done = 0;
  std::mutex m_mutex;
  std::optional<Error> m_failure;
};

}  // namespace

Result<Descriptor> export_image(const fs::path& store_path, const std::string& image, ImageTarget& target,
                                const ExportOptions& options, Reporter& reporter) {
  const base::Fd in_use = TRY(hold_store(store_path, reporter));
  const Store store = Store::at(store_path);
  return Export(store, target, options, reporter).run(image);
}

}  // namespace startrail::image
