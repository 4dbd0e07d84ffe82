// SPDX-License-Identifier: Apache-2.0
// A job as answers carry it: the one place where a JobSnapshot becomes a message.
#pragma once

#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/run_totals.h"
#include "stepscope/v1/types.pb.h"

namespace stepscope {

/// Tables and loss are summed over the job's `runs`.
void FillJob(const JobSnapshot& job, const JobTable& jobs, const TotalsSource& totals, const Clock& clock, v1::Job* message);

/// No more rows will come.
bool IsOver(const JobSnapshot& job);

}  // namespace stepscope
