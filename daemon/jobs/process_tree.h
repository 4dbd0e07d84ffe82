// SPDX-License-Identifier: Apache-2.0
// What procfs says about one process: parent and start time. A root path is the seam for fake trees.
#pragma once

#include <string>
#include <vector>

#include "daemon/jobs/job_table.h"

namespace stepscope {

struct ProcStat {
  ProcessKey process;
  Pid parent;
};

/// NOT_FOUND when the process is gone.
absl::StatusOr<ProcStat> ReadProcStat(Pid pid, const std::string& proc);

/// The process itself, then its parents up to (not including) pid 1; stops early at one that vanished.
std::vector<ProcessKey> Ancestry(ProcessKey process, const std::string& proc);

/// True while this very process (not a later one with the same pid) exists and is no zombie.
bool IsAlive(ProcessKey process, const std::string& proc);

}  // namespace stepscope
