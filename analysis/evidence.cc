// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace stepscope {
namespace {

std::vector<TimeRange> Merged(std::vector<TimeRange> ranges) {
  std::sort(ranges.begin(), ranges.end(), [](const TimeRange& a, const TimeRange& b) { return a.begin < b.begin; });
  std::vector<TimeRange> merged;
  for (const TimeRange& range : ranges) {
    if (!merged.empty() && range.begin <= merged.back().end) {
      merged.back().end = std::max(merged.back().end, range.end);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

/// A step longer than this, by lane.
std::unordered_map<uint32_t, int64_t> LongestOrdinary(std::span<const StepRow> steps) {
  std::map<uint32_t, std::vector<int64_t>> durations;
  for (const StepRow& step : steps) durations[step.lane].push_back(step.dur_ns);
  std::unordered_map<uint32_t, int64_t> limits;
  for (auto& [lane, of_lane] : durations) {
    const int64_t median_ns = StatisticsOf(std::move(of_lane)).median_ns;
    limits[lane] = median_ns + median_ns / 2;
  }
  return limits;
}

}  // namespace

Evidence EvidenceOf(std::span<const StepRow> steps, std::span<const TimeRange> findings, const EvidenceRules& rules) {
  Evidence evidence;
  for (const TimeRange& finding : findings) {
    evidence.kept.push_back({finding.begin + -rules.around_finding_ns, finding.end + rules.around_finding_ns});
  }
  const auto limits = LongestOrdinary(steps);
  for (const StepRow& step : steps) {
    const bool outlier = step.dur_ns > limits.at(step.lane);
    if (outlier) evidence.kept.push_back({step.start, step.end()});
    if (!outlier && step.number % rules.normal_step_every == 0) evidence.sampled.push_back({step.start, step.end()});
  }
  return {Merged(std::move(evidence.kept)), Merged(std::move(evidence.sampled))};
}

bool Touches(std::span<const TimeRange> ranges, NodeTime first, NodeTime last) {
  const auto range = std::partition_point(ranges.begin(), ranges.end(), [&](const TimeRange& r) { return r.end < first; });
  return range != ranges.end() && range->begin <= last;
}

}  // namespace stepscope
