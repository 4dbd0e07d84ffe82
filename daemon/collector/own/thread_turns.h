// SPDX-License-Identifier: Apache-2.0
// ThreadTurns: turns of one thread out of its in and out records, in time order. It never invents an end: a turn one end of
// which was lost is left out (the loss row covers it), except the first of a thread that was on a CPU when recording began.
//
//   cover        in      out(runnable)      in            out(blocked)        in
//   ──┬───────────┬──────────┬───────────────┬──────────────┬──────────────────┬───
//     │ unknown   │  turn    │ wait: exact   │    turn      │ sleep + wait:    │
//     └───────────┘          └───────────────┘              └ unknown, flagged ┘
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"

namespace stepscope {

struct Turn {
  NodeTime on;
  NodeTime off;
  int64_t wait_ns = 0;
  bool wait_known = false;    ///< false: it slept before, and when it was woken is not recorded
  bool began_before = false;  ///< it was on the CPU already when recording of the thread began, at `on`
  bool is_first = false;      ///< first turn of a new thread
  bool ends_runnable = false;
  bool ends_dead = false;
  int32_t cpu = 0;
};

class ThreadTurns {
 public:
  /// `is_new`: the thread was made just then, so the turn that begins first is its first one.
  ThreadTurns(NodeTime covered_since, bool is_new) : covered_since_(covered_since), is_new_(is_new) {}

  void In(NodeTime time, int32_t cpu);
  std::optional<Turn> Out(NodeTime time, int32_t cpu, bool is_runnable);
  /// The thread ends here, on its CPU.
  std::optional<Turn> Exit(NodeTime time, int32_t cpu);
  bool IsOn(int32_t cpu) const { return is_on_ && cpu_ == cpu; }
  /// Records of `cpu` were lost before this moment: what was begun there may have ended meanwhile.
  void Lost(int32_t cpu);

 private:
  std::optional<Turn> End(NodeTime time, int32_t cpu);

  NodeTime covered_since_;
  bool is_new_;
  bool seen_any_ = false;
  bool is_on_ = false;
  int32_t cpu_ = 0;
  NodeTime on_;
  std::optional<NodeTime> runnable_since_;  ///< it lost its CPU then and wants to go on
};

}  // namespace stepscope
