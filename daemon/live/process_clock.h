// SPDX-License-Identifier: Apache-2.0
// ProcessClock: CPU time of live processes and threads as /proc counts it. `proc` is the root of procfs, so a test can step it.
// A process that is gone, or whose pid is now another process, reads as nullopt.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/proc_stat.h"
#include "base/thread_sums.h"
#include "daemon/jobs/job_table.h"

namespace stepscope {

class ProcessClock {
 public:
  explicit ProcessClock(std::string proc) : proc_(std::move(proc)) {}
  std::optional<ThreadSums> MainThread(ProcessKey process) const;
  /// User + system time of all threads, in steps of a clock tick (10 ms).
  std::optional<int64_t> CpuNs(ProcessKey process) const;
  std::optional<Pid> Parent(ProcessKey process) const;
  /// Empty when schedstat is there; else why not and what to change.
  std::string SchedStatProblem() const;

 private:
  std::optional<ProcStat> ReadStat(ProcessKey process) const;

  std::string proc_;
};

}  // namespace stepscope
