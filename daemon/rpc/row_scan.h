// SPDX-License-Identifier: Apache-2.0
// Reading rows for an answer: the range a request means, a bounded scan, and the holes in it.
#pragma once

#include <google/protobuf/repeated_ptr_field.h>

#include <functional>
#include <span>

#include "absl/status/statusor.h"
#include "analysis/time_range.h"
#include "daemon/live/lane_facts.h"
#include "daemon/rpc/parts.h"
#include "daemon/rpc/query_budget.h"
#include "stepscope/v1/types.pb.h"

namespace stepscope {

struct QueryRange {
  TimeRange shown;  ///< what the answer says it covers
  TimeRange rows;   ///< rows to look at: wider where the caller gave no bound, so that no row of the job is left out
};
/// `begin_ns` 0 = job start, `end_ns` 0 = job end or now. INVALID_ARGUMENT for a reversed or negative range.
absl::StatusOr<QueryRange> RangeOf(const JobSnapshot& job, int64_t begin_ns, int64_t end_ns, const Clock& clock);

using Holes = google::protobuf::RepeatedPtrField<v1::Hole>;

/// Batches of the newest run of `job` until the budget is spent (then budget->exhausted()). Stored blocks that cannot be
/// decoded become a hole instead of an error. With `lanes` (ascending) rows of other lanes may be left out.
absl::Status ScanRows(const RpcParts& parts, const JobSnapshot& job, TableId table, TimeRange range, QueryBudget* budget,
                      Holes* holes, const std::function<void(const Batch&)>& visit, std::span<const uint32_t> lanes = {});

/// Loss rows that touch `range`, at most 1,000.
absl::Status FillHoles(const RpcParts& parts, const JobSnapshot& job, const LaneFacts& lanes, TimeRange range,
                       QueryBudget* budget, Holes* holes);

}  // namespace stepscope
