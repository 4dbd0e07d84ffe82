// SPDX-License-Identifier: Apache-2.0
// InnerTids: host tids of threads that live in a pid namespace of their own, as the sched collector saw them begin and end. A
// ring names its thread by the innermost tid, and by the time it is read the thread may be gone from /proc.
//
// An ended thread is remembered for kKeptNs: an agent's bytes arrive well within it. Of two threads that had the same inner tid
// the later one counts.
//
// Thread rule: any.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/time.h"
#include "daemon/jobs/job_table.h"

namespace stepscope {

class InnerTids {
 public:
  static constexpr int64_t kKeptNs = 10 * kNsPerSecond;

  /// `catch_up` makes the collector tell all it has read up to now.
  InnerTids(const Clock* clock, std::function<void()> catch_up) : clock_(clock), catch_up_(std::move(catch_up)) {}

  void Began(ProcessKey process, int32_t inner_tid, int32_t host_tid);
  void Ended(ProcessKey process, int32_t host_tid);
  /// The process with all its threads.
  void Ended(ProcessKey process);
  std::optional<int32_t> Host(ProcessKey process, int32_t inner_tid) const;
  /// Returns when every thread that was announced before the call is known.
  void CatchUp() const { catch_up_(); }

 private:
  using Thread = std::pair<ProcessKey, int32_t>;
  struct Past {
    NodeTime since;
    Thread inner;
    int32_t host_tid;
  };
  void End(std::map<Thread, int32_t>::iterator alive);
  void ForgetPast();

  const Clock* const clock_;
  const std::function<void()> catch_up_;
  mutable std::mutex mu_;
  std::map<Thread, int32_t> hosts_;  ///< by inner tid
  std::map<Thread, int32_t> alive_;  ///< by host tid: the inner tid
  std::deque<Past> past_;
};

}  // namespace stepscope
