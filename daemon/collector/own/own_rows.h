// SPDX-License-Identifier: Apache-2.0
// Rows of OwnCollector: turns as sched_slice, sums of /proc as counters.
//
// What the kernel does not tell at this level is not filled with something likely: a slice carries kSliceOwnLevel, which says
// that waker, syscall, arg0, seq, exec, rq_wait, stolen and faults are unknown, and kSliceWaitUnknown where its wait is.
#pragma once

#include "base/time.h"
#include "daemon/collector/open_batches.h"
#include "daemon/collector/own/own_tasks.h"
#include "daemon/collector/own/thread_turns.h"

namespace stepscope {

/// Counters of each followed process, in ns since its first thread: they only grow.
inline constexpr char kRunningCounter[] = "sched.running_ns_total";
inline constexpr char kRunnableCounter[] = "sched.runnable_ns_total";

class OwnRows : public OpenBatches {
 public:
  void AddTurn(OwnThread& thread, const Turn& turn);
  void AddSums(const OwnProcess& process, const ThreadSums& sums, NodeTime now);
};

}  // namespace stepscope
