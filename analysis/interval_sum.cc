// SPDX-License-Identifier: Apache-2.0
#include "analysis/interval_sum.h"

#include <algorithm>

namespace stepscope {

void IntervalSum::Add(int64_t begin_ns, int64_t end_ns) {
  if (begin_ns < end_ns) intervals_.push_back({begin_ns, end_ns});
}

void IntervalSum::Seal() {
  std::sort(intervals_.begin(), intervals_.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  size_t kept = 0;
  for (const Interval& interval : intervals_) {
    if (kept > 0 && interval.begin <= intervals_[kept - 1].end) {
      intervals_[kept - 1].end = std::max(intervals_[kept - 1].end, interval.end);
    } else {
      intervals_[kept++] = interval;
    }
  }
  intervals_.resize(kept);
  covered_before_.assign(kept, 0);
  for (size_t i = 1; i < kept; ++i) covered_before_[i] = covered_before_[i - 1] + Length(i - 1);
}

int64_t IntervalSum::OverlapNs(int64_t begin_ns, int64_t end_ns) const {
  return begin_ns < end_ns ? CoveredBelow(end_ns) - CoveredBelow(begin_ns) : 0;
}

int64_t IntervalSum::CoveredBelow(int64_t time_ns) const {
  const auto next = std::upper_bound(intervals_.begin(), intervals_.end(), time_ns,
                                     [](int64_t time, const Interval& interval) { return time < interval.begin; });
  if (next == intervals_.begin()) return 0;
  const size_t i = static_cast<size_t>(next - intervals_.begin()) - 1;
  return covered_before_[i] + std::min(time_ns, intervals_[i].end) - intervals_[i].begin;
}

}  // namespace stepscope
