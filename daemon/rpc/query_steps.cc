// SPDX-License-Identifier: Apache-2.0
// ListSteps: the steps of each rank and what their thread did meanwhile.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <unordered_map>

#include "analysis/interval_sum.h"
#include "analysis/steps.h"
#include "base/status.h"
#include "daemon/rpc/job_proto.h"
#include "daemon/rpc/query_handlers.h"
#include "daemon/rpc/row_scan.h"

namespace stepscope {
namespace {

constexpr uint32_t kDefaultSteps = 1'000;
constexpr uint32_t kMostSteps = 50'000;

/// What a thread did, as intervals to cut steps out of.
struct LaneTime {
  IntervalSum running;
  IntervalSum runnable;
  IntervalSum loader;
};
using LaneTimes = std::unordered_map<uint32_t, LaneTime>;

void AddLoaderSpans(const Batch& batch, LaneTimes* lanes) {
  const auto& c = batch.columns;
  for (size_t row = 0; row < batch.rows(); ++row) {
    if (c[span_column::kDomain][row] != static_cast<int64_t>(SpanDomain::kLoader)) continue;
    const int64_t start = c[span_column::kStart][row];
    (*lanes)[batch.lane[row]].loader.Add(start, start + c[span_column::kDur][row]);
  }
}

void AddTurns(const Batch& batch, const std::set<uint32_t>& wanted, LaneTimes* lanes) {
  const auto& c = batch.columns;
  for (size_t row = 0; row < batch.rows(); ++row) {
    if (!wanted.contains(batch.lane[row])) continue;
    const int64_t on = c[slice_column::kOn][row];
    LaneTime& lane = (*lanes)[batch.lane[row]];
    lane.running.Add(on, on + c[slice_column::kDur][row]);
    lane.runnable.Add(on - c[slice_column::kWait][row], on);
  }
}

void FillStep(const StepRow& row, int32_t rank, const LaneTime& lane, v1::Step* step) {
  step->set_rank(rank);
  step->set_number(row.number);
  step->set_start_ns(row.start.ns);
  step->set_dur_ns(row.dur_ns);
  step->set_running_ns(lane.running.OverlapNs(row.start.ns, row.end().ns));
  step->set_runnable_ns(lane.runnable.OverlapNs(row.start.ns, row.end().ns));
  step->set_loader_ns(lane.loader.OverlapNs(row.start.ns, row.end().ns));
  step->set_source(StepSourceName(row.source));
}

}  // namespace

absl::Status QueryHandlers::ListSteps(Call& call, const v1::ListStepsRequest& request, v1::ListStepsResponse* response) const {
  STEPSCOPE_ASSIGN_OR_RETURN(const JobSnapshot job, access_->JobOf(call.peer, request.job()));
  if (!request.all_ranks() && request.rank() < 0) {
    return absl::InvalidArgumentError(fmt::format("rank {} is no rank; give one of 0 … or all_ranks = true", request.rank()));
  }
  STEPSCOPE_ASSIGN_OR_RETURN(const QueryRange range, RangeOf(job, request.begin_ns(), request.end_ns(), *parts_.clock));
  STEPSCOPE_ASSIGN_OR_RETURN(const QueryRange whole_job, RangeOf(job, 0, 0, *parts_.clock));
  const LaneFacts lanes(*parts_.dictionary, *parts_.jobs, job.run);

  // All spans of the job, not of the range: a step's number and begin may come from the step before it.
  StepFinder finder;
  LaneTimes times;
  STEPSCOPE_RETURN_IF_ERROR(
      ScanRows(parts_, job, TableId::kSpan, whole_job.rows, &call.budget, response->mutable_holes(), [&](const Batch& batch) {
        finder.Add(batch);
        AddLoaderSpans(batch, &times);
      }));
  std::vector<StepRow> steps = finder.Steps([&](uint32_t lane) { return lanes.GroupOf(lane); });
  std::erase_if(steps, [&](const StepRow& step) {
    const bool other_rank = !request.all_ranks() && lanes.Of(step.lane).rank != request.rank();
    return other_rank || step.start < range.rows.begin || step.start >= range.rows.end;
  });
  std::sort(steps.begin(), steps.end(), [&](const StepRow& a, const StepRow& b) {
    return std::tuple(lanes.Of(a.lane).rank, a.start, a.lane, a.number) <
           std::tuple(lanes.Of(b.lane).rank, b.start, b.lane, b.number);
  });
  const size_t limit = request.limit() == 0 ? kDefaultSteps : std::min(request.limit(), kMostSteps);
  const bool cut = steps.size() > limit;
  if (cut) steps.resize(limit);

  std::set<uint32_t> wanted;
  TimeRange covered{NodeTime{INT64_MAX}, NodeTime{0}};
  for (const StepRow& step : steps) {
    wanted.insert(step.lane);
    covered.begin = std::min(covered.begin, step.start);
    covered.end = std::max(covered.end, step.end());
  }
  if (!steps.empty()) {
    STEPSCOPE_RETURN_IF_ERROR(ScanRows(parts_, job, TableId::kSchedSlice, covered, &call.budget, response->mutable_holes(),
                                       [&](const Batch& batch) { AddTurns(batch, wanted, &times); }));
  }
  STEPSCOPE_RETURN_IF_ERROR(FillHoles(parts_, job, lanes, range.rows, &call.budget, response->mutable_holes()));
  for (auto& [lane, time] : times) {
    time.running.Seal();
    time.runnable.Seal();
    time.loader.Seal();
  }
  for (const StepRow& step : steps) FillStep(step, lanes.Of(step.lane).rank, times[step.lane], response->add_steps());
  response->set_cut(cut || call.budget.exhausted());
  response->set_final(IsOver(job));
  return absl::OkStatus();
}

}  // namespace stepscope
