// An image in a registry, to be pulled.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/transfers.hpp"
#include "image/exchange.hpp"
#include "image/registry/session.hpp"
#include "image/store.hpp"

namespace startrail::image {

// Blobs arrive in the store's downloads/, ranged, several at once and the largest first; a process that comes later
// takes up what is there. A server without ranges works too.
class RegistrySource final : public ImageSource, private base::TransferListener {
 public:
  // Errors: those of Session::open.
  [[nodiscard]] static Result<std::unique_ptr<RegistrySource>> open(const Reference& reference, const Store& store,
                                                                    const RegistryOptions& options,
                                                                    const base::TransferOptions& transfers = {});
  ~RegistrySource() override;
  RegistrySource(const RegistrySource&) = delete;
  RegistrySource& operator=(const RegistrySource&) = delete;

  [[nodiscard]] std::string name() const override { return m_session->reference().text(); }
  // The own one is never an index: of one, linux/amd64's manifest is taken. Errors also: unsupported.
  [[nodiscard]] Result<ManifestText> manifest(std::string_view digest) override;
  [[nodiscard]] Result<std::string> small_blob(const Descriptor& blob) override;
  void expect(const std::vector<Descriptor>& blobs) override;
  [[nodiscard]] Result<std::unique_ptr<BlobReader>> open(const Descriptor& blob) override;
  void finished(const Descriptor& blob) override;
  void spoiled(const Descriptor& blob) override;

  // Digests of the blobs that were finished.
  [[nodiscard]] std::vector<std::string> received() const;
  // Bytes of blobs that came over the network until now.
  [[nodiscard]] std::uint64_t fetched() const;

 private:
  struct Arriving;
  class Reader;
  RegistrySource(std::unique_ptr<Session> session, Store store, const base::TransferOptions& transfers);

  void opened(std::size_t id, std::shared_ptr<const base::ArrivingFile> file) override;
  void arrived(std::size_t id) override;
  void ended(std::size_t id, Result<void> outcome) override;

  [[nodiscard]] Result<ManifestText> own_manifest();
  [[nodiscard]] Result<ManifestText> fetch_manifest(const std::string& wanted);
  [[nodiscard]] Result<std::string> fetch_blob(const Descriptor& blob);
  [[nodiscard]] Result<std::shared_ptr<Arriving>> arriving(const Descriptor& blob, int places);
  void order(const std::shared_ptr<Arriving>& arriving);
  struct There {
    std::shared_ptr<const base::ArrivingFile> file;
    std::uint64_t length = 0;  // that can be read now; never 0
  };
  [[nodiscard]] Result<There> wait(Arriving& arriving, std::uint64_t offset, std::uint64_t at_most);
  [[nodiscard]] Result<void> renew(Arriving& arriving);
  void drop(const Descriptor& blob);
  [[nodiscard]] Error about(Error reason) const;

  std::unique_ptr<Session> m_session;
  const Store m_store;
  mutable std::mutex m_mutex;
  std::condition_variable m_changed;
  std::optional<ManifestText> m_own;                         // as `manifest` gave it
  std::map<std::string, std::shared_ptr<Arriving>> m_blobs;  // by digest
  std::map<std::size_t, std::shared_ptr<Arriving>> m_by_id;  // those that transfers tell of
  std::vector<std::string> m_received;                       // digests of what was finished
  std::uint64_t m_fetched = 0;                               // of blobs that are done with
  base::Transfers m_transfers;                               // last: its thread uses the rest
};

}  // namespace startrail::image
