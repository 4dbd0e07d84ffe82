// SPDX-License-Identifier: Apache-2.0
// WorkQueue: one named thread that runs tasks in order. Producers bound themselves (one task per stream, one poll at a time), so
// the queue is as long as there are sessions.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace stepscope {

class WorkQueue {
 public:
  explicit WorkQueue(const std::string& name) {
    thread_ = std::thread([this, name] {
      pthread_setname_np(pthread_self(), name.c_str());
      Loop();
    });
  }
  ~WorkQueue() { Close(); }

  /// False, and the task is dropped, once the queue is closed.
  bool Post(std::function<void()> task) {
    const std::lock_guard lock(mu_);
    if (closed_) return false;
    tasks_.push_back(std::move(task));
    ready_.notify_one();
    return true;
  }
  /// Finishes the task at hand, drops the others. Not from the thread itself.
  void Close() {
    {
      const std::lock_guard lock(mu_);
      closed_ = true;
      ready_.notify_one();
    }
    if (thread_.joinable()) thread_.join();
    tasks_.clear();
  }

 private:
  void Loop() {
    std::unique_lock lock(mu_);
    while (true) {
      ready_.wait(lock, [&] { return closed_ || !tasks_.empty(); });
      if (closed_) return;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      task = nullptr;
      lock.lock();
    }
  }

  std::mutex mu_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool closed_ = false;
  std::thread thread_;
};

}  // namespace stepscope
