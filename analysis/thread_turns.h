// SPDX-License-Identifier: Apache-2.0
// ThreadTurns: the turns of each thread in time order, from sched_slice rows in any order. What the analysis of waits reads.
//
//        turn i            gap i              turn i+1
//   [on ──────── off)[asleep ─ ready)[runnable)[on ──── off)
//                                    └ wait_ns ┘
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "analysis/time_range.h"
#include "trace/batch.h"

namespace stepscope {

/// One sched_slice row without the kernel's books.
struct Turn {
  NodeTime on;
  NodeTime off;
  int64_t wait_ns = 0;  ///< runnable before `on`
  uint64_t arg0 = 0;    ///< of the call the turn ended in
  Tid waker;            ///< of the wake that led to this turn; 0 = none or not a task
  WakerKind waker_kind = WakerKind::kUnknown;
  SliceState state = SliceState::kBlocked;  ///< how it ended
  int16_t syscall = -1;                     ///< call it ended in; -1 = none
  uint32_t seq = 0;
};

class ThreadTurns {
 public:
  /// Adds the rows that end in (ended_in.begin, ended_in.end]: windows that tile see each turn once.
  void Add(const Batch& slices, TimeRange ended_in);
  /// Puts them in order; call before reading.
  void Sort();
  /// By lane.
  const std::map<uint32_t, std::vector<Turn>>& lanes() const { return lanes_; }
  size_t turns() const { return turns_; }
  /// Forgets all but the last turn of each thread: the gap behind it belongs to the next window.
  void KeepLast();

 private:
  std::map<uint32_t, std::vector<Turn>> lanes_;
  size_t turns_ = 0;
};

}  // namespace stepscope
