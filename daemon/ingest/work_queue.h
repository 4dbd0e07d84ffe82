// SPDX-License-Identifier: Apache-2.0
// WorkQueue: one named thread that runs tasks in order, and one of them again and again. Producers bound themselves (one task per
// stream), so the queue is as long as there are sessions.
#pragma once

#include <pthread.h>

#include <chrono>
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
  /// Runs `task` from now on whenever `period()` has passed since its last time; that is asked after every task.
  void Repeat(std::function<std::chrono::nanoseconds()> period, std::function<void()> task) {
    Post([this, period = std::move(period), task = std::move(task)] {
      period_ = period;
      repeated_ = task;
    });
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
  using SteadyTime = std::chrono::steady_clock::time_point;

  void Loop() {
    SteadyTime repeated;
    while (const std::function<void()> task = Next(period_ ? repeated + period_() : SteadyTime::max(), &repeated)) task();
  }
  /// Waits for a task or until the repeated one is due; nothing at the end.
  std::function<void()> Next(SteadyTime due, SteadyTime* repeated) {
    std::unique_lock lock(mu_);
    const auto has_work = [&] { return closed_ || !tasks_.empty(); };
    if (due == SteadyTime::max()) {
      ready_.wait(lock, has_work);
    } else if (std::chrono::steady_clock::now() >= due || !ready_.wait_until(lock, due, has_work)) {
      *repeated = std::chrono::steady_clock::now();
      return closed_ ? nullptr : repeated_;
    }
    if (closed_) return nullptr;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    return task;
  }

  std::mutex mu_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> tasks_;
  bool closed_ = false;
  std::function<std::chrono::nanoseconds()> period_;  ///< [worker], as the next
  std::function<void()> repeated_;
  std::thread thread_;
};

}  // namespace stepscope
