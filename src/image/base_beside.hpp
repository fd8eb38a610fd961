// The base being made beside the wheels, by a thread of its own.
#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "image/making.hpp"

namespace startrail::image {

class BaseBeside {
 public:
  // Starts at once, unless the base is there. All arguments must outlive this.
  BaseBeside(const Suppliers& suppliers, const std::filesystem::path& store, BaseRecipe recipe, Reporter& reporter);
  BaseBeside(const BaseBeside&) = delete;
  BaseBeside& operator=(const BaseBeside&) = delete;
  [[nodiscard]] bool is_being_made() const { return m_thread.joinable(); }
  // Waits for it; from then on its progress is shown.
  [[nodiscard]] Result<BaseSystem> get();

 private:
  // Two bars cannot be shown at once: until somebody waits for the base, only what the user must read comes through.
  class QuietReporter final : public base::Reporter {
   public:
    explicit QuietReporter(Reporter& reporter) : m_reporter(reporter) {}
    void step(std::string_view what) override;
    void progress(const base::Progress& progress) override;
    void note(std::string_view text) override { m_reporter.note(text); }
    void warn(std::string_view text) override { m_reporter.warn(text); }
    std::atomic<bool> aloud{false};

   private:
    Reporter& m_reporter;
  };
  QuietReporter m_reporter;
  Result<BaseSystem> m_result;
  std::jthread m_thread;
};

}  // namespace startrail::image
