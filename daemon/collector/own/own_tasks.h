// SPDX-License-Identifier: Apache-2.0
// The processes and threads OwnCollector follows, and what it knows of each. Plain state of its thread.
#pragma once

#include <cstdint>
#include <vector>

#include "base/thread_sums.h"
#include "daemon/collector/own/thread_turns.h"
#include "daemon/collector/task_table.h"

namespace stepscope {

struct OwnThread : TrackedThread {
  ThreadTurns turns{{}, false};
  ThreadSums sums;             ///< at the last sweep
  uint64_t records = 0;        ///< perf records since the last sweep
  uint8_t silent_sweeps = 0;   ///< sweeps in a row in which the kernel counted turns and no record came
  uint8_t missing_sweeps = 0;  ///< sweeps in a row in which /proc did not list it
  bool is_refused = false;     ///< perf does not record it; its sums are read all the same
};

struct OwnProcess : TrackedProcess {
  bool same_ids_inside = true;  ///< its pid namespace is the daemon's
  ThreadSums of_ended;          ///< last known sums of its threads that ended
  std::vector<int32_t> found;   ///< threads /proc listed in the last sweep that nobody announced
  void Ended(const OwnThread& thread) { of_ended += thread.sums; }
};

class OwnTasks : public TaskTableOf<OwnProcess, OwnThread> {
 public:
  OwnThread& AddThread(OwnProcess& process, int32_t tid, ThreadTurns turns) {
    OwnThread& thread = TaskTableOf::AddThread(process, tid);
    thread.turns = turns;
    return thread;
  }
};

}  // namespace stepscope
