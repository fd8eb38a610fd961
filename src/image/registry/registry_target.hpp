// A place in a registry, to be pushed to.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "image/exchange.hpp"
#include "image/registry/session.hpp"
#include "image/store.hpp"

namespace startrail::image {

class RegistryTarget final : public ImageTarget {
 public:
  // Errors: those of Session::open; usage (a digest instead of a tag).
  [[nodiscard]] static Result<std::unique_ptr<RegistryTarget>> open(const Reference& reference, const Store& store,
                                                                    const RegistryOptions& options);
  // What the repository has now is kept in mind for mounting.
  ~RegistryTarget() override;
  RegistryTarget(const RegistryTarget&) = delete;
  RegistryTarget& operator=(const RegistryTarget&) = delete;

  [[nodiscard]] std::string name() const override { return m_session->reference().text(); }
  // A blob that another repository of the same registry is known to have is mounted from there.
  [[nodiscard]] Result<bool> has(const Descriptor& blob) override;
  [[nodiscard]] Result<void> put_file(const Descriptor& blob, const std::filesystem::path& file) override;
  [[nodiscard]] Result<void> put_text(const Descriptor& blob, std::string_view text) override;
  [[nodiscard]] Result<void> put_manifest(const ManifestText& manifest, Naming naming) override;
  [[nodiscard]] Result<void> put_referrer(const ManifestText& manifest, const Descriptor& subject,
                                          const Descriptor& own) override;

  // How each blob came there, by digest.
  enum class Way { was_there, mounted, uploaded };
  [[nodiscard]] std::map<std::string, Way> ways() const;
  // The image's own, once it was put; else an empty text.
  [[nodiscard]] ManifestText manifest() const;
  // Bytes of blobs that went over the network, those of broken uploads too.
  [[nodiscard]] std::uint64_t sent() const { return m_sent.load(); }

 private:
  RegistryTarget(std::unique_ptr<Session> session, Store store);
  [[nodiscard]] Result<bool> mount(const Descriptor& blob);
  [[nodiscard]] Result<void> upload(const Descriptor& blob, std::optional<std::filesystem::path> file,
                                    std::string_view text);
  [[nodiscard]] Result<base::HttpResponse> put(const ManifestText& manifest, const std::string& name);
  [[nodiscard]] Result<void> add_to_fallback(const Descriptor& subject, const Descriptor& own);
  void note(const Descriptor& blob, Way way);

  std::unique_ptr<Session> m_session;
  const Store m_store;
  std::atomic<std::uint64_t> m_sent{0};
  mutable std::mutex m_mutex;
  std::map<std::string, Way> m_ways;
  ManifestText m_manifest;
  std::map<std::string, std::string> m_begun;  // uploads that a refused mount has begun: digest → location
  std::mutex m_referrers;                      // the fallback's index is read, changed and written
};

// The tag that a subject's referrers are listed under where there is no API for them.
[[nodiscard]] std::string fallback_tag(const std::string& digest);

}  // namespace startrail::image
