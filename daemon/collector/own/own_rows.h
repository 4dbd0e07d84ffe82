// SPDX-License-Identifier: Apache-2.0
// Rows of OwnCollector: turns as sched_slice, lost records as loss, sums of /proc as counters; one open batch per run and table.
//
// What the kernel does not tell at this level is not filled with something likely: a slice carries kSliceOwnLevel, which says
// that waker, syscall, arg0, seq, exec, rq_wait, stolen and faults are unknown, and kSliceWaitUnknown where its wait is.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "base/time.h"
#include "daemon/collector/own/own_tasks.h"
#include "daemon/collector/own/thread_turns.h"
#include "trace/batch.h"

namespace stepscope {

/// Counters of each followed process, in ns since its first thread: they only grow.
inline constexpr char kRunningCounter[] = "sched.running_ns_total";
inline constexpr char kRunnableCounter[] = "sched.runnable_ns_total";

class OwnRows {
 public:
  void AddTurn(OwnThread& thread, const Turn& turn);
  /// `lost` switch records of one CPU found no room within [from, to): at most as many turns are missing.
  void AddLoss(RunId run, int32_t cpu, uint64_t lost, NodeTime from, NodeTime to);
  void AddSums(const OwnProcess& process, const ThreadSums& sums, NodeTime now);
  size_t rows() const { return rows_; }
  /// Everything added since the last call.
  std::vector<Batch> Take();

 private:
  void AddCounter(const OwnProcess& process, const char* name, int64_t value, NodeTime now);

  std::map<RunId, Batch> slices_, losses_, counters_;
  size_t rows_ = 0;
  uint64_t serial_ = 1;
};

}  // namespace stepscope
