// SPDX-License-Identifier: Apache-2.0
// Evidence: the stretches of a run whose rows are worth keeping when there is no room for all (docs/retention.md).
//
//   kept     around findings, and outlier steps: longer than one and a half times the median of their thread's steps
//   sampled  one ordinary step in so many, to compare with
//
// Thread rule: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "analysis/steps.h"
#include "analysis/time_range.h"

namespace stepscope {

struct EvidenceRules {
  int64_t around_finding_ns = 2 * kNsPerSecond;
  int64_t normal_step_every = 100;
};

/// Disjoint and ascending.
struct Evidence {
  std::vector<TimeRange> kept;
  std::vector<TimeRange> sampled;
};

/// `steps`: of one stretch of the run, any order; the medians are theirs. `findings`: the ranges their rows name.
Evidence EvidenceOf(std::span<const StepRow> steps, std::span<const TimeRange> findings, const EvidenceRules& rules);

/// True if rows from `first` to `last`, both included, touch one of the ranges.
bool Touches(std::span<const TimeRange> ranges, NodeTime first, NodeTime last);

}  // namespace stepscope
