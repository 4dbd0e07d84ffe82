// SPDX-License-Identifier: Apache-2.0
// Steps of a training run, from span rows. Where a group of lanes (a rank) has spans of domain step, those are its steps: the
// user's are nested spans, the agent's automatic ones (optimizer to optimizer) are tokens. Where it has none, a step is the
// time between the ends of two consecutive optimizer steps of one thread, so the first one has no step before it. A thread
// that runs several optimizers is measured by the one it calls most.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "trace/batch.h"

namespace stepscope {

enum class StepSource { kUser, kOptimizer };
/// "user" or "optimizer".
const char* StepSourceName(StepSource source);

struct StepRow {
  uint32_t lane = 0;
  int64_t number = 0;  ///< as annotated, else 0, 1, 2 … in time order
  NodeTime start;
  int64_t dur_ns = 0;
  StepSource source = StepSource::kUser;
  bool numbered = false;  ///< number was annotated: it means the same in every window
  NodeTime end() const { return start + dur_ns; }
};

class StepFinder {
 public:
  /// `spans`: rows of the span table. A span whose end was never seen is no step.
  void Add(const Batch& spans);
  /// By (lane, start). `group_of` names the lanes that share one training loop: step spans on one of them silence the
  /// optimizer steps of all.
  std::vector<StepRow> Steps(const std::function<int64_t(uint32_t lane)>& group_of) const;

 private:
  struct Candidate {
    NodeTime start;
    int64_t dur_ns;
    int64_t number;
    bool has_number;
    StepSource source;
  };
  using OptimizerKey = std::pair<uint32_t, int64_t>;  // lane, name

  std::map<uint32_t, std::vector<Candidate>> marked_;
  std::map<OptimizerKey, std::vector<Candidate>> optimizer_;
};

/// Duration statistics of one group of steps; all zero when there are none.
struct StepStatistics {
  uint64_t count = 0;
  int64_t min_ns = 0;
  int64_t median_ns = 0;  ///< lower median: an observed duration
  int64_t max_ns = 0;
  int64_t total_ns = 0;
};
StepStatistics StatisticsOf(std::vector<int64_t> durations_ns);

}  // namespace stepscope
