// SPDX-License-Identifier: Apache-2.0
// ThreadTimes: where each thread's time went, from its sched_slice rows, in O(threads) memory and any order of batches.
//
//   running    sum of off - on inside the window
//   runnable   sum of the waits [on - wait, on) inside the window
//   books      exec and rq_wait as the kernel counted them. They cannot be cut, so a turn belongs to the window its off lies
//              in (begin < off <= end): windows that tile add up to the whole.
//   seq holes  each turn advances the thread's switch counter by one, so (last - first + 1) - turns is what is missing.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <unordered_map>

#include "analysis/time_range.h"
#include "trace/batch.h"

namespace stepscope {

struct ThreadTime {
  int64_t running_ns = 0;
  int64_t runnable_ns = 0;
  int64_t exec_ns = 0;
  int64_t rq_wait_ns = 0;
  uint64_t slices = 0;     ///< turns that ended in the window
  uint64_t preempted = 0;  ///< of those, ended although the thread wanted to go on (preempted, tick, throttled)
  int64_t max_wait_ns = 0;
  uint64_t seq_holes = 0;
  NodeTime first;     ///< begin of the first wait or turn seen
  NodeTime last;      ///< end of the last turn seen
  bool born = false;  ///< its very first turn is among the rows
  bool dead = false;  ///< its very last turn is among the rows

  /// Lifetime inside `window` minus running and runnable. A thread not born here is taken to live from `alive_since`, one not
  /// dead here until `alive_until`.
  int64_t SleepingNs(TimeRange window, NodeTime alive_since, NodeTime alive_until) const;
};

class ThreadTimes {
 public:
  explicit ThreadTimes(TimeRange window) : window_(window) {}
  /// `slices`: rows of sched_slice, interned or not; rows outside the window are ignored.
  void Add(const Batch& slices);
  /// By lane.
  std::unordered_map<uint32_t, ThreadTime> Finish() const;

 private:
  struct Books {
    ThreadTime time;
    uint32_t some_seq = 0;  ///< seq of the first row added; the others are measured from it, so wrapping is harmless
    int64_t min_seq_delta = 0;
    int64_t max_seq_delta = 0;
  };
  void AddRow(Books& books, const Batch& slices, size_t row) const;
  static void CountTurn(Books& books, const Batch& slices, size_t row);

  TimeRange window_;
  std::unordered_map<uint32_t, Books> books_;
};

}  // namespace stepscope
