// SPDX-License-Identifier: Apache-2.0
// LockHolders: who held the GIL of one process while another thread waited for it. The kernel says who woke a waiter, which is
// right when two threads share the lock and wrong when more do: the lock changes hands several times during one wait, and the
// last one to hand it over may have held it for microseconds. So the holder is rebuilt:
//
//   acquisition  the end of a wait for the GIL, or of any other sleep (calls that block give the GIL up), that no wait for the
//                GIL follows within 200 us of running
//   holder at t  the last to acquire among those that do not wait for the GIL at t
//
// Only threads that were seen to wait for the GIL or to wake one that did take part: others may be pure C threads. The parts of a
// wait add up to it exactly; time before the first acquisition seen has holder 0.
//
// Thread rule: immutable once built.
#pragma once

#include <vector>

#include "analysis/run_history.h"

namespace stepscope {

/// One stretch of a wait, [begin, end), and who held the lock.
struct Hold {
  NodeTime begin;
  NodeTime end;
  uint32_t holder = 0;  ///< lane; 0 = not known
  friend bool operator==(const Hold&, const Hold&) = default;
};

/// What holders did with the lock, summed over stretches. A holder asleep made a blocking call without giving the lock up.
struct HeldTime {
  int64_t on_cpu_ns = 0;
  int64_t runnable_ns = 0;  ///< starved of a CPU
  int64_t blocked_ns = 0;
  int64_t unknown_ns = 0;
  WaitCause blocked_cause = WaitCause::kOther;  ///< of the longest blocking
  int16_t blocked_syscall = -1;
};

class LockHolders {
 public:
  /// `threads`: all recorded threads of one process.
  explicit LockHolders(const std::vector<const ThreadHistory*>& threads);

  /// Stretches that tile [begin, end) for `waiter`, which waits for the GIL meanwhile.
  std::vector<Hold> Of(uint32_t waiter, NodeTime begin, NodeTime end) const;
  size_t contenders() const { return contenders_.size(); }

 private:
  void BuildTimeline();

  std::vector<const ThreadHistory*> contenders_;
  std::vector<std::pair<NodeTime, uint32_t>> timeline_;  ///< holder from this time on
};

/// Sum over the stretches of `holds` that `holder` held.
HeldTime HeldTimeOf(const ThreadHistory& holder, const std::vector<Hold>& holds);

}  // namespace stepscope
