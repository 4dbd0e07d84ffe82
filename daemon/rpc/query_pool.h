// SPDX-License-Identifier: Apache-2.0
// QueryPool: the threads RPC handlers run on, so that a heavy one never holds a gRPC or ingest thread. The queue is bounded;
// a full one refuses and the caller tells its client.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace stepscope {

class QueryPool {
 public:
  struct Options {
    std::string thread_name;
    int threads = 2;
    int nice = 10;
    size_t queue_limit = 64;
    std::function<void()> on_submit = [] {};  ///< on the caller's thread
  };
  explicit QueryPool(const Options& options);
  ~QueryPool();

  /// False: the queue is full or the pool is stopping; `work` will not run.
  bool Submit(std::function<void()> work);
  /// Runs what is queued, then joins.
  void Stop();

 private:
  void Loop();

  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace stepscope
