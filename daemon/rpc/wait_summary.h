// SPDX-License-Identifier: Apache-2.0
// The waits in a GetSummary answer: what each thread slept for and who ended it. Rows are read in windows of so many turns that a
// query keeps its memory bound, whatever the length of the job.
#pragma once

#include "analysis/wait_totals.h"
#include "daemon/rpc/row_scan.h"
#include "stepscope/v1/query.pb.h"

namespace stepscope {

struct WaitScan {
  WaitTotals totals;
  bool cut = false;  ///< the budget ended before the range did
};

/// `turns_expected`: sched_slice rows in `range`, which must be bounded by the times of real rows.
absl::StatusOr<WaitScan> ScanWaits(const RpcParts& parts, const JobSnapshot& job, const LaneFacts& lanes, TimeRange range,
                                   uint64_t turns_expected, QueryBudget* budget, Holes* holes);

/// Largest first, little ones taken together.
void FillWaits(const std::map<WaitKey, WaitSum>& waits, const LaneFacts& lanes, v1::ThreadSummary* thread);

}  // namespace stepscope
