// SPDX-License-Identifier: Apache-2.0
#include "analysis/steps.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <tuple>

namespace stepscope {

const char* StepSourceName(StepSource source) { return source == StepSource::kUser ? "user" : "optimizer"; }

void StepFinder::Add(const Batch& spans) {
  const auto& c = spans.columns;
  for (size_t row = 0; row < spans.rows(); ++row) {
    const int64_t flags = c[span_column::kFlags][row];
    if ((flags & (kSpanCut | kSpanInstant)) != 0) continue;
    const auto domain = static_cast<SpanDomain>(c[span_column::kDomain][row]);
    const bool automatic = domain == SpanDomain::kOptimizer || (flags & kSpanToken) != 0;
    const Candidate candidate{{c[span_column::kStart][row]},
                              c[span_column::kDur][row],
                              c[span_column::kNumber][row],
                              c[span_column::kHasNumber][row] != 0,
                              automatic ? StepSource::kOptimizer : StepSource::kUser};
    if (domain == SpanDomain::kStep) marked_[spans.lane[row]].push_back(candidate);
    if (domain == SpanDomain::kOptimizer) optimizer_[{spans.lane[row], c[span_column::kName][row]}].push_back(candidate);
  }
}

std::vector<StepRow> StepFinder::Steps(const std::function<int64_t(uint32_t lane)>& group_of) const {
  const auto by_start = [](const Candidate& a, const Candidate& b) {
    return std::tie(a.start, a.dur_ns, a.number) < std::tie(b.start, b.dur_ns, b.number);
  };
  std::vector<StepRow> steps;
  std::set<int64_t> marked_groups;
  for (auto [lane, candidates] : marked_) {
    marked_groups.insert(group_of(lane));
    std::sort(candidates.begin(), candidates.end(), by_start);
    for (size_t i = 0; i < candidates.size(); ++i) {
      const Candidate& step = candidates[i];
      steps.push_back(
          {lane, step.has_number ? step.number : static_cast<int64_t>(i), step.start, step.dur_ns, step.source, step.has_number});
    }
  }
  std::map<uint32_t, const std::vector<Candidate>*> busiest;  // the optimizer a lane calls most
  for (const auto& [key, candidates] : optimizer_) {
    const auto [it, inserted] = busiest.try_emplace(key.first, &candidates);
    if (!inserted && candidates.size() > it->second->size()) it->second = &candidates;
  }
  for (const auto& [lane, unsorted] : busiest) {
    if (marked_groups.contains(group_of(lane))) continue;
    std::vector<Candidate> candidates = *unsorted;
    std::sort(candidates.begin(), candidates.end(), by_start);
    for (size_t i = 1; i < candidates.size(); ++i) {
      const NodeTime start = candidates[i - 1].start + candidates[i - 1].dur_ns;
      const NodeTime end = candidates[i].start + candidates[i].dur_ns;
      const int64_t number = candidates[i].has_number ? candidates[i].number : static_cast<int64_t>(i);
      steps.push_back({lane, number, start, std::max<int64_t>(0, end - start), StepSource::kOptimizer, candidates[i].has_number});
    }
  }
  std::sort(steps.begin(), steps.end(), [](const StepRow& a, const StepRow& b) {
    return std::tie(a.lane, a.start, a.number) < std::tie(b.lane, b.start, b.number);
  });
  return steps;
}

StepStatistics StatisticsOf(std::vector<int64_t> durations_ns) {
  if (durations_ns.empty()) return {};
  const auto middle = durations_ns.begin() + static_cast<std::ptrdiff_t>((durations_ns.size() - 1) / 2);
  std::nth_element(durations_ns.begin(), middle, durations_ns.end());
  const auto [min, max] = std::minmax_element(durations_ns.begin(), durations_ns.end());
  return {durations_ns.size(), *min, *middle, *max, std::accumulate(durations_ns.begin(), durations_ns.end(), int64_t{0})};
}

}  // namespace stepscope
