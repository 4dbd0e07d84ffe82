// SPDX-License-Identifier: Apache-2.0
// One reading of every running job's processes, and what two readings say about the time between them.
//
//   running, runnable   growth of the main thread's schedstat over the time between the readings
//   sleeping            the rest, so the three sum to 1
//   cpus                growth of utime + stime of a rank's process and its descendants (loader workers)
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "daemon/jobs/job_table.h"
#include "daemon/live/process_clock.h"
#include "stepscope/v1/query.pb.h"

namespace stepscope {

struct ProcessSample {
  int32_t rank = -1;  ///< the rank it works for
  Pid parent;
  std::optional<ThreadSums> main_thread;
  std::optional<int64_t> cpu_ns;
};
struct JobSample {
  JobSnapshot job;
  std::map<ProcessKey, ProcessSample> processes;
};
struct NodeSample {
  NodeTime node;
  WallTime wall;
  std::map<RunId, JobSample> jobs;  ///< running and quiet ones
};

NodeSample TakeSample(const JobTable& jobs, const ProcessClock& processes, const Clock& clock);

/// One row per rank alive in `after`, by rank; for a job without ranks one per top-level process, with rank -1. A process
/// that is only in `after` has no history yet: its shares begin with the next reading.
std::vector<v1::RankUtilization> CompareSamples(const JobSample& before, const JobSample& after, int64_t between_ns,
                                                const std::string& schedstat_problem);

}  // namespace stepscope
