// SPDX-License-Identifier: Apache-2.0
// The runs of the JobTable as retention sees them.
#pragma once

#include <string>
#include <vector>

#include "daemon/jobs/job_table.h"
#include "daemon/retention/retention.h"

namespace stepscope {

std::vector<RetainedRun> RetainedRuns(const JobTable& jobs, const std::string& boot_id);

}  // namespace stepscope
