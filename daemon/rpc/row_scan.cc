// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/row_scan.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/loss_text.h"
#include "base/valid_utf8.h"
#include "daemon/rpc/job_proto.h"

namespace stepscope {
namespace {

constexpr int kMaxHoles = 1000;
/// Farther than any node runs, and near enough that sums of times stay times.
constexpr int64_t kForeverNs = int64_t{1} << 61;
/// Rows may end a little after their job did: exits that were still in a kernel ring.
constexpr int64_t kAfterEndNs = 60 * kNsPerSecond;

}  // namespace

absl::StatusOr<QueryRange> RangeOf(const JobSnapshot& job, int64_t begin_ns, int64_t end_ns, const Clock& clock) {
  if (begin_ns < 0 || end_ns < 0 || (end_ns != 0 && end_ns <= begin_ns)) {
    return absl::InvalidArgumentError(fmt::format(
        "begin_ns {} and end_ns {} are no range: give node time with begin_ns < end_ns, or 0 for the job's own bounds", begin_ns,
        end_ns));
  }
  begin_ns = std::min(begin_ns, kForeverNs);
  end_ns = std::min(end_ns, kForeverNs + 1);
  const NodeTime last = IsOver(job) && job.end_node.ns > 0 ? job.end_node : clock.Node();
  QueryRange range;
  range.shown = {begin_ns != 0 ? NodeTime{begin_ns} : job.start_node, end_ns != 0 ? NodeTime{end_ns} : last};
  range.rows = {NodeTime{begin_ns}, end_ns != 0 ? NodeTime{end_ns} : last + kAfterEndNs};
  return range;
}

absl::Status ScanRows(const RpcParts& parts, const JobSnapshot& job, TableId table, TimeRange range, QueryBudget* budget,
                      Holes* holes, const std::function<void(const Batch&)>& visit, std::span<const uint32_t> lanes) {
  if (!budget->Spend(0)) return absl::OkStatus();
  const auto spend = [&](const Batch& batch) {
    visit(batch);
    return budget->Spend(batch.rows());
  };
  absl::Status status = parts.reader->ForEachBatch(job.run, table, range.begin, range.end, spend, lanes);
  if (!absl::IsDataLoss(status)) return status;
  v1::Hole* hole = holes->Add();
  hole->set_start_ns(range.begin.ns);
  hole->set_end_ns(range.end.ns);
  hole->set_stage(LossStageText(static_cast<int64_t>(LossStage::kStore)));
  hole->set_reason(ValidUtf8(std::string(status.message())));
  hole->set_table(LossTableText(static_cast<int64_t>(table)));
  hole->set_count(-1);
  return absl::OkStatus();
}

absl::Status FillHoles(const RpcParts& parts, const JobSnapshot& job, const LaneFacts& lanes, TimeRange range,
                       QueryBudget* budget, Holes* holes) {
  return ScanRows(parts, job, TableId::kLoss, range, budget, holes, [&](const Batch& batch) {
    const auto& c = batch.columns;
    for (size_t row = 0; row < batch.rows() && holes->size() < kMaxHoles; ++row) {
      const NodeTime start{c[loss_column::kStart][row]};
      const NodeTime end = start + c[loss_column::kDur][row];
      if (start >= range.end || (end <= range.begin && start < range.begin)) continue;
      v1::Hole* hole = holes->Add();
      hole->set_start_ns(start.ns);
      hole->set_end_ns(end.ns);
      hole->set_stage(LossStageText(c[loss_column::kStage][row]));
      hole->set_reason(LossReasonText(c[loss_column::kReason][row]));
      hole->set_source(lanes.Label(static_cast<uint32_t>(std::max<int64_t>(0, c[loss_column::kSource][row]))));
      hole->set_table(LossTableText(c[loss_column::kTable][row]));
      hole->set_count(c[loss_column::kCount][row]);
    }
  });
}

}  // namespace stepscope
