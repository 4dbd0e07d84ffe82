// SPDX-License-Identifier: Apache-2.0
#include "daemon/retention/retained_runs.h"

namespace stepscope {

std::vector<RetainedRun> RetainedRuns(const JobTable& jobs, const std::string& boot_id) {
  std::vector<RetainedRun> runs;
  for (const JobSnapshot& job : jobs.List()) {
    const bool ended = job.state != JobState::kRunning && job.state != JobState::kQuiet;
    runs.push_back({job.run, ended, job.boot_id == boot_id, job.end_wall});
  }
  return runs;
}

}  // namespace stepscope
