// SPDX-License-Identifier: Apache-2.0
// The turns behind a GetSummary answer: where each thread's time went, what it slept for and who ended that. Rows are read once,
// in windows of so many turns that a query keeps its memory bound, whatever the length of the job.
#pragma once

#include "analysis/thread_time.h"
#include "analysis/wait_totals.h"
#include "daemon/rpc/row_scan.h"
#include "stepscope/v1/query.pb.h"

namespace stepscope {

struct TurnScan {
  explicit TurnScan(TimeRange rows) : times(rows), waits(rows) {}
  ThreadTimes times;
  WaitTotals waits;
  bool waits_cut = false;  ///< the budget ran short before the range ended; the times are whole unless it is exhausted
};

absl::StatusOr<TurnScan> ScanTurns(const RpcParts& parts, const JobSnapshot& job, const QueryRange& range, QueryBudget* budget,
                                   Holes* holes);

/// Largest first, little ones taken together.
void FillWaits(const std::map<WaitKey, WaitSum>& waits, const LaneFacts& lanes, v1::ThreadSummary* thread);

}  // namespace stepscope
