// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/sample_schedule.h"

#include <algorithm>
#include <limits>

namespace stepscope {

SampleSchedule::SampleSchedule(const std::vector<int64_t>& periods_ns) {
  for (const int64_t period_ns : periods_ns) sources_.push_back({std::max<int64_t>(period_ns, 1), {}});
}

void SampleSchedule::Start(NodeTime now) {
  for (Source& source : sources_) source.next = {(now.ns / source.period_ns + 1) * source.period_ns};
}

std::vector<SampleSchedule::Due> SampleSchedule::Take(NodeTime now) {
  std::vector<Due> due;
  for (size_t i = 0; i < sources_.size(); ++i) {
    Source& source = sources_[i];
    if (now < source.next) continue;
    const int64_t skipped = (now - source.next) / source.period_ns;
    due.push_back({i, skipped, source.next});
    source.next = source.next + (skipped + 1) * source.period_ns;
  }
  return due;
}

NodeTime SampleSchedule::Next() const {
  NodeTime next{std::numeric_limits<int64_t>::max()};
  for (const Source& source : sources_) next = std::min(next, source.next);
  return next;
}

}  // namespace stepscope
