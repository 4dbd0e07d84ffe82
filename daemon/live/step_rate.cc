// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/step_rate.h"

#include <algorithm>

#include "analysis/steps.h"

namespace stepscope {
namespace {

constexpr int64_t kRateWindowNs = 10 * kNsPerSecond;
/// A little more than the rate window, so that the step that straddles its begin has its start.
constexpr int64_t kReadNs = 12 * kNsPerSecond;
/// On first sight of a run: long steps have ended minutes ago.
constexpr int64_t kFirstReadNs = 300 * kNsPerSecond;

}  // namespace

const std::map<int64_t, RankSteps>& StepRate::Update(const JobSnapshot& job, const LaneFacts& lanes, NodeTime now) {
  const auto [it, first_sight] = runs_.try_emplace(job.run);
  std::map<int64_t, RankSteps>& ranks = it->second;
  const NodeTime from{std::max<int64_t>(0, now.ns - (first_sight ? kFirstReadNs : kReadNs))};
  StepFinder finder;
  const absl::Status read = reader_->ForEachBatch(job.run, TableId::kSpan, from, now + 1, [&](const Batch& batch) {
    finder.Add(batch);
    return true;
  });
  for (auto& [group, steps] : ranks) steps.per_second = 0;
  if (!read.ok()) return ranks;
  const int64_t window_ns = std::clamp<int64_t>(now - job.start_node, kNsPerSecond, kRateWindowNs);
  for (const StepRow& step : finder.Steps([&](uint32_t lane) { return lanes.GroupOf(lane); })) {
    RankSteps& rank = ranks[lanes.GroupOf(step.lane)];
    if (step.end() > now) continue;
    if (now - step.end() < window_ns) rank.per_second += static_cast<double>(kNsPerSecond) / static_cast<double>(window_ns);
    if (step.end() < rank.last_end) continue;
    rank.last_end = step.end();
    rank.last_number = step.numbered ? step.number : -1;
    rank.last_dur_ns = step.dur_ns;
  }
  return ranks;
}

void StepRate::KeepOnly(const std::vector<RunId>& keep) {
  std::erase_if(runs_, [&](const auto& entry) { return std::find(keep.begin(), keep.end(), entry.first) == keep.end(); });
}

}  // namespace stepscope
