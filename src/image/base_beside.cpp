#include "image/base_beside.hpp"

namespace startrail::image {

void BaseBeside::QuietReporter::step(std::string_view what) {
  if (aloud) m_reporter.step(what);
}

void BaseBeside::QuietReporter::progress(const base::Progress& progress) {
  if (aloud) m_reporter.progress(progress);
}

BaseBeside::BaseBeside(const Suppliers& suppliers, const fs::path& store, BaseRecipe recipe, Reporter& reporter)
    : m_reporter(reporter), m_result(base::fail(ErrorCode::internal, "the base was not made")) {
  if (auto found = suppliers.find_base(store, recipe.digest)) {
    m_result = std::move(*found);
    return;
  }
  m_thread = std::jthread([this, &suppliers, store, recipe = std::move(recipe)] {
    m_result = suppliers.make_base(store, recipe, m_reporter);
  });
}

Result<BaseSystem> BaseBeside::get() {
  m_reporter.aloud = true;
  if (m_thread.joinable()) m_thread.join();
  return m_result;
}

}  // namespace startrail::image
