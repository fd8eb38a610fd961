// From manifest and config to an image of the store: what is missing is unpacked side by side, then linked.
#include "image/oci/import_image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <thread>

#include "base/clock.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "image/base_system.hpp"
#include "image/image_folder.hpp"
#include "image/oci/documents.hpp"
#include "image/oci/merged_tree.hpp"
#include "image/oci/names.hpp"
#include "image/oci/pulled_image.hpp"
#include "image/oci/unpack_layer.hpp"

namespace startrail::image {
namespace {

// Room that the file system needs for itself when it is filled to the brim.
constexpr Bytes k_reserve{64U << 20U};

// What an image of ours says about itself.
struct Claim {
  std::string text;  // of manifest.json
  Manifest manifest;
  Json details;
};

bool is_python(const std::string& text) {
  return text.size() >= 3 && text.size() <= 5 && text.find_first_not_of("0123456789.") == std::string::npos &&
         text[1] == '.' && text[0] != '.' && text.find('.', 2) == std::string::npos;
}

bool is_about_content(ErrorCode code) {
  return code == ErrorCode::hash_mismatch || code == ErrorCode::corrupt;
}

bool is_hex(const std::string& text) {
  return is_digest("sha256:" + text);
}

// Every part of it is going to be a part of a path.
bool is_sound(const Manifest& manifest, const std::string& text) {
  return is_python(manifest.python) && is_hex(manifest.base_digest) && is_hex(manifest.base_recipe) &&
         (manifest.parent.empty() || is_digest(manifest.parent)) && manifest.diff_ids.empty() &&
         std::ranges::all_of(manifest.wheels, is_hex, &ManifestWheel::sha256) && manifest_text(manifest) == text;
}

Result<std::optional<Claim>> claim_of(const OciConfig& config, std::string_view name) {
  const auto label = [&](std::string_view key) {
    const auto found = config.labels.find(std::string(key));
    return found == config.labels.end() ? std::string() : found->second;
  };
  Claim claim{.text = label(k_label_manifest), .manifest = {}, .details = {}};
  // Built upon one of ours by somebody: any image.
  if (claim.text.empty() || label(k_label_layers) != layers_digest(config.diff_ids)) return std::nullopt;
  auto manifest = parse_manifest(claim.text);
  auto details = base::parse_json(label(k_label_details), "details");
  if (!manifest || !is_sound(*manifest, claim.text) || !details || !details->is_object() || config.diff_ids.size() < 2)
    return base::fail(ErrorCode::corrupt,
                      fmt::format("{} says that it is an image of ours, but its labels are damaged", name));
  claim.manifest = std::move(*manifest);
  claim.details = std::move(*details);
  return claim;
}

class Import {
 public:
  Import(const Store& store, ImageSource& source, const ImportOptions& options, Reporter& reporter)
      : m_store(store), m_source(source), m_options(options), m_reporter(reporter) {}

  Result<Image> run() {
    TRY(read_documents());
    const std::string id = m_claim ? manifest_id(m_claim->manifest) : manifest_id(foreign_manifest());
    if (auto there = find(id)) {
      m_reporter.note(fmt::format("image {} is here already", id.substr(0, 19)));
    } else {
      TRY(unpack_all());
      m_reporter.step("making the image");
      TRY(m_claim ? make_own(id) : make_foreign(id));
    }
    TRY(name_image(m_store, m_options.names, id));
    touch_image(m_store, id);
    const Manifest manifest = TRY(read_manifest(m_store, id));
    return image_from_manifest(m_store, id, manifest);
  }

 private:
  Result<void> read_documents() {
    const std::string name = m_source.name();
    m_reporter.step("reading " + name);
    ManifestText text = TRY(m_source.manifest(""));
    if (is_index(text)) {
      const Descriptor own = TRY(own_platform(text, name));
      text = TRY(m_source.manifest(own.digest));
    }
    m_manifest_digest = text.digest;
    m_manifest = TRY(parse_image_manifest(text, name));
    const std::string config = TRY(m_source.small_blob(m_manifest.config));
    m_config = TRY(parse_config(config, name));
    if (m_config.diff_ids.size() != m_manifest.layers.size())
      return base::fail(ErrorCode::corrupt, fmt::format("{} has {} layers, but its config has {}", name,
                                                        m_manifest.layers.size(), m_config.diff_ids.size()));
    m_claim = TRY(claim_of(m_config, name));
    return check_blobs();
  }

  // One blob is one layer, whatever its config calls it.
  [[nodiscard]] Result<void> check_blobs() const {
    std::map<std::string, std::string> diff_ids;
    for (std::size_t i = 0; i < m_manifest.layers.size(); ++i) {
      const std::string& digest = m_manifest.layers[i].digest;
      if (diff_ids.try_emplace(digest, m_config.diff_ids[i]).first->second != m_config.diff_ids[i])
        return base::fail(ErrorCode::corrupt, fmt::format("the config of {} gives the layer {} two contents",
                                                          m_source.name(), digest.substr(0, 19)));
    }
    return {};
  }

  [[nodiscard]] Manifest foreign_manifest() const {
    return {.lock = {},
            .python = {},
            .base_recipe = {},
            .base_digest = {},
            .wheels = {},
            .parent = {},
            .oci_manifest = m_manifest_digest,
            .diff_ids = m_config.diff_ids};
  }

  std::optional<Image> find(const std::string& id) {
    const auto manifest = read_manifest(m_store, id);
    if (!manifest) return std::nullopt;
    auto image = image_from_manifest(m_store, id, *manifest);
    return image ? std::optional(std::move(*image)) : std::nullopt;
  }

  [[nodiscard]] bool has_base() const {
    return m_claim && find_base_by_digest(m_store.root(), "", m_claim->manifest.base_digest).has_value();
  }

  // ---- layers ----
  std::vector<LayerOrder> missing() const {
    std::vector<LayerOrder> orders;
    for (std::size_t i = has_base() ? 1 : 0; i < m_manifest.layers.size(); ++i) {
      const std::string& diff_id = m_config.diff_ids[i];
      const bool asked = std::ranges::find(orders, diff_id, &LayerOrder::diff_id) != orders.end();
      if (!asked && !has_layer(m_store, diff_id)) orders.push_back({m_manifest.layers[i], diff_id});
    }
    std::ranges::stable_sort(orders, std::greater<>(), [](const LayerOrder& order) { return order.blob.size; });
    return orders;
  }

  Result<void> unpack_all() {
    const std::vector<LayerOrder> orders = missing();
    std::vector<Descriptor> blobs;
    const Bytes free = TRY(base::free_space(m_store.root()));
    for (const LayerOrder& order : orders) {
      blobs.push_back(order.blob);
      if (order.blob.size > free.count) return no_room(Bytes{order.blob.size}, free);  // so that no sum overflows
      m_total += order.blob.size;
    }
    if (Bytes{m_total} + k_reserve > free) return no_room(Bytes{m_total}, free);
    m_source.expect(blobs);
    WritingRoom room(free.count - k_reserve.count);
    return unpack_side_by_side(orders, room);
  }

  Result<void> unpack_side_by_side(const std::vector<LayerOrder>& orders, WritingRoom& room) {
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
      for (std::size_t i = next++; i < orders.size() && !has_failed(); i = next++) {
        auto done = unpack(orders[i], room);
        // What was damaged on the way, or in a part that a power cut left, is right the second time.
        if (!done && is_about_content(done.error().code)) done = unpack(orders[i], room);
        if (!done) note_failure(std::move(done.error()));
      }
    };
    const std::size_t cores = m_options.workers > 0 ? static_cast<std::size_t>(m_options.workers)
                                                    : std::max(1U, std::thread::hardware_concurrency());
    std::vector<std::jthread> threads;
    // More than there are cores: one that waits for the network leaves its core to others.
    for (std::size_t i = 0; i < std::min(orders.size(), std::max<std::size_t>(2 * cores, 4)); ++i)
      threads.emplace_back(work);
    threads.clear();
    if (!m_failure) return {};
    return base::fail(m_failure->code == ErrorCode::no_space ? with_ways_out(*m_failure) : *m_failure);
  }

  Result<void> unpack(const LayerOrder& order, WritingRoom& room) {
    return unpack_layer(m_store, m_source, order, room, [&](std::uint64_t bytes) { show(bytes); });
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
        {.what = "unpacking layers", .done = std::min(m_done.load(), m_total), .total = m_total, .detail = {}});
  }

  [[nodiscard]] std::unexpected<Error> no_room(Bytes needed, Bytes free) const {
    return base::fail(
        with_ways_out(base::error(ErrorCode::no_space, fmt::format("the layers of {} have {}; {} are free",
                                                                   m_source.name(), to_text(needed), to_text(free)))));
  }
  [[nodiscard]] Error with_ways_out(Error reason) const {
    return std::move(reason)
        .with_context("the store is " + m_store.root().string())
        .with_hint("`trail image prune --unused 30d` removes images that are not used")
        .with_hint("or set STARTRAIL_HOME to a folder on a larger disk");
  }

  // ---- images ----
  [[nodiscard]] Json with_origin(Json details) const {
    details["created"] = base::to_text(base::now());
    details["origin"] = {{"source", m_source.name()}, {"manifest", m_manifest_digest}};
    return details;
  }

  Result<void> make_own(const std::string& id) {
    TRY(make_base());
    const std::vector<std::string> upper(m_config.diff_ids.begin() + 1, m_config.diff_ids.end());
    return publish(id, m_claim->text, m_claim->details, upper);
  }

  // The base's name is its content's digest: whoever has it can trust it, wherever it came from. No recipe is noted for
  // it, for that this recipe gives this base is only what somebody says.
  Result<void> make_base() {
    if (has_base()) return {};
    const std::string& digest = m_claim->manifest.base_digest;
    const std::string key = "base-" + digest;
    const base::FileLock lock = TRY(m_store.lock(key));
    if (has_base()) return {};  // whoever held the lock before made it
    const MergedTree tree = TRY(merged_layers(m_store, {m_config.diff_ids.front()}));
    const std::string own = TRY(tree.tree_digest());
    if (own != digest)
      return base::fail(base::error(ErrorCode::hash_mismatch,
                                    fmt::format("{} has another base system than the one it names", m_source.name()))
                            .with_context(fmt::format("its lowest layer is {}, not {}", own, digest)));
    TRY(or_nothing(key, fill_base(tree, m_store.staging(key))));
    // The layer stays until a prune: its files are the base's own, and another import may just need it.
    return m_store.publish(key, m_store.folder("bases") / digest);
  }

  Result<void> fill_base(const MergedTree& tree, const fs::path& staging) {
    TRY(base::make_directories(staging / "root"));
    TRY(base::make_directories(m_store.folder("bases")));
    TRY(tree.make(m_store, staging / "root"));
    const Json meta{{"digest", m_claim->manifest.base_digest},
                    {"size", tree.size()},
                    {"suite", base::string_at(m_claim->details, "suite")},
                    {"created", base::to_text(base::now())},
                    {"origin", m_source.name()}};
    return base::write_file_atomic(staging / "meta.json", base::to_pretty_text(meta), 0644);
  }

  // Of the topmost `count` layers.
  [[nodiscard]] std::vector<std::string> titles(std::size_t count) const {
    constexpr std::size_t k_longest = 200;
    std::vector<std::string> result;
    for (std::size_t i = m_manifest.layers.size() - count; i < m_manifest.layers.size(); ++i) {
      const auto& annotations = m_manifest.layers[i].annotations;
      const auto title = annotations.find(std::string(k_layer_title));
      result.push_back(title == annotations.end() ? "" : title->second.substr(0, k_longest));
    }
    return result;
  }

  // Nothing half-made stays behind a failure.
  Result<void> or_nothing(const std::string& key, Result<void> made) const {
    if (!made) (void)base::remove_tree(m_store.staging(key));
    return made;
  }

  Result<void> make_foreign(const std::string& id) {
    Json details{{"framework", ""},
                 {"framework_version", ""},
                 {"python", ""},
                 {"suite", ""},
                 {"architecture", m_config.architecture},
                 {"environment", m_config.environment},
                 {"working_directory", m_config.working_directory},
                 {"packages", Json::array()}};
    tell_skipped();
    return publish(id, manifest_text(foreign_manifest()), std::move(details), m_config.diff_ids);
  }

  void tell_skipped() {
    std::size_t count = 0;
    for (const std::string& diff_id : m_config.diff_ids)
      if (const auto contents = read_contents(m_store, diff_id)) count += contents->skipped.size();
    if (count > 0)
      m_reporter.note(fmt::format("{} devices and pipes are left out: a run has a /dev of its own", count));
  }

  Result<void> publish(const std::string& id, const std::string& manifest, Json details,
                       const std::vector<std::string>& layers) {
    const std::string key = "pulled-" + m_store.image(id).filename().string();
    const base::FileLock lock = TRY(m_store.lock(key));
    if (find(id)) return {};
    TRY(or_nothing(key, fill_image(m_store.staging(key), manifest, std::move(details), layers)));
    return m_store.publish(key, m_store.image(id));
  }

  Result<void> fill_image(const fs::path& staging, const std::string& manifest, Json details,
                          const std::vector<std::string>& layers) {
    TRY(base::make_directories(staging / "tree"));
    const MergedTree tree = TRY(merged_layers(m_store, layers));
    TRY(tree.make(m_store, staging / "tree"));
    if (!m_claim) {
      details["size_bytes"] = tree.size();
      TRY(base::write_file_atomic(staging / "config.json", base::to_compact_text(m_config.whole), 0444));
    }
    TRY(base::write_file_atomic(staging / "details.json", base::to_pretty_text(with_origin(std::move(details))), 0444));
    TRY(base::write_file_atomic(staging / "layers.json", layers_text(layers, titles(layers.size())), 0444));
    return base::write_file_atomic(staging / "manifest.json", manifest, 0444);
  }

  const Store& m_store;
  ImageSource& m_source;
  const ImportOptions& m_options;
  Reporter& m_reporter;
  std::string m_manifest_digest;
  OciManifest m_manifest;
  OciConfig m_config;
  std::optional<Claim> m_claim;
  std::uint64_t m_total = 0;
  std::atomic<std::uint64_t> m_done = 0;
  std::mutex m_mutex;
  std::optional<Error> m_failure;
};

}  // namespace

Result<Image> import_image(const fs::path& store_path, ImageSource& source, const ImportOptions& options,
                           Reporter& reporter) {
  const base::Fd in_use = TRY(hold_store(store_path, reporter));
  const Store store = Store::at(store_path);
  return Import(store, source, options, reporter).run();
}

}  // namespace startrail::image
