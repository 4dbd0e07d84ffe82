// SPDX-License-Identifier: Apache-2.0
// What the sched collector tells the rest of the daemon about the processes it follows. Wired to the JobTable by main.
#pragma once

#include <cstdint>
#include <string>

#include "base/ids.h"
#include "daemon/jobs/job_table.h"
#include "trace/batch.h"

namespace stepscope {

/// Final values of the kernel's counters of a thread.
struct ThreadTotals {
  uint64_t switches = 0;  ///< voluntary + involuntary
  int64_t exec_ns = 0;
  int64_t run_delay_ns = 0;
  uint64_t min_faults = 0;
  uint64_t maj_faults = 0;
};

/// A thread became known or changed its name.
struct ThreadFacts {
  RunId run;
  EntityKey key;  ///< kThread
  std::string comm;
  int32_t inner_tid = 0;  ///< as gettid() says inside; 0 = not known
  int32_t inner_tgid = 0;
  uint32_t pid_namespace = 0;
  bool is_new = true;  ///< false: a rename or exec of a known thread
};

/// All calls come on the sched thread, between rows; they must not block on it (Track, Untrack and Stop do, except that
/// Untrack called from here is queued instead).
class TaskObserver {
 public:
  virtual ~TaskObserver() = default;
  virtual void OnProcess(RunId run, ProcessKey process, ProcessKey parent) = 0;
  /// `remaining` counts the run's processes still followed.
  virtual void OnProcessExit(RunId run, ProcessKey process, size_t remaining) = 0;
  virtual void OnThread(const ThreadFacts& thread) = 0;
  virtual void OnThreadExit(RunId run, const EntityKey& thread, const ThreadTotals& totals) = 0;
};

}  // namespace stepscope
