// Threads that pack pieces for whoever asks.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <mutex>
#include <stop_token>
#include <thread>
#include <vector>

#include "base/error.hpp"

namespace startrail::image {

class Workers {
 public:
  using Packed = Result<std::vector<std::byte>>;

  explicit Workers(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) m_threads.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }

  [[nodiscard]] std::future<Packed> submit(std::function<Packed()> job) {
    std::packaged_task<Packed()> task(std::move(job));
    auto future = task.get_future();
    {
      const std::scoped_lock lock(m_mutex);
      m_tasks.push_back(std::move(task));
    }
    m_changed.notify_one();
    return future;
  }

 private:
  void work(const std::stop_token& stop) {
    for (;;) {
      std::packaged_task<Packed()> task;
      {
        std::unique_lock lock(m_mutex);
        if (!m_changed.wait(lock, stop, [&] { return !m_tasks.empty(); })) return;
        task = std::move(m_tasks.front());
        m_tasks.pop_front();
      }
      task();
    }
  }

  std::mutex m_mutex;
  std::condition_variable_any m_changed;
  std::deque<std::packaged_task<Packed()>> m_tasks;
  std::vector<std::jthread> m_threads;  // last: they end before what they use
};

}  // namespace startrail::image
