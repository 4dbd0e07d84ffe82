// SPDX-License-Identifier: Apache-2.0
// MailboxThread: the thread of a collector. It waits for events of its owner and for work others post, runs that work in order,
// then lets the owner look at its events.
//
// Thread rule: Open, Start and Stop from the owner's thread; Post from any; Call from any but this one, which would wait for
// itself.
#pragma once

#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "base/unique_fd.h"

namespace stepscope {

class MailboxThread {
 public:
  /// `name` is the thread's, and the collector's in errors; at most 15 bytes.
  explicit MailboxThread(const char* name) : name_(name) {}
  /// Makes wake_fd().
  absl::Status Open();
  /// Readable while work is posted: `wait` returns then.
  int wake_fd() const { return wake_.get(); }
  /// Both run on the thread: `wait` first, then what is posted, then `look`. After Open.
  void Start(std::function<void()> wait, std::function<void()> look);
  /// Runs `last` behind everything posted before, then joins. Idempotent.
  void Stop(std::function<void()> last);

  /// Runs `work` on the thread and returns its answer. FAILED_PRECONDITION before Start, UNAVAILABLE from Stop on.
  absl::Status Call(std::function<absl::Status()> work);
  void Post(std::function<void()> work);
  bool IsCurrent() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  enum class State { kNew, kRunning, kStopping };
  void Loop(const std::function<void()>& wait, const std::function<void()>& look);
  std::vector<std::function<void()>> TakePosted();
  bool IsOver();

  const char* const name_;
  unique_fd wake_;
  std::thread thread_;
  std::mutex mutex_;
  State state_ = State::kNew;                  // under mutex_
  std::vector<std::function<void()>> posted_;  // under mutex_
};

}  // namespace stepscope
