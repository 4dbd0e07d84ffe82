// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/query_pool.h"

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

namespace stepscope {

QueryPool::QueryPool(const Options& options) : options_(options) {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { Loop(); });
}
QueryPool::~QueryPool() { Stop(); }

bool QueryPool::Submit(std::function<void()> work) {
  options_.on_submit();
  {
    const std::lock_guard lock(mutex_);
    if (stopping_ || queue_.size() >= options_.queue_limit) return false;
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

void QueryPool::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

void QueryPool::Loop() {
  pthread_setname_np(pthread_self(), options_.thread_name.c_str());
  setpriority(PRIO_PROCESS, static_cast<id_t>(gettid()), options_.nice);  // of this thread only; a refusal changes nothing
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace stepscope
