// SPDX-License-Identifier: Apache-2.0
// StepRate: how fast each rank steps right now, from the span rows of the last seconds.
//
// Thread rule: owned by the sampler thread.
#pragma once

#include <cstdint>
#include <map>

#include "daemon/live/lane_facts.h"
#include "daemon/pipeline/table_reader.h"

namespace stepscope {

struct RankSteps {
  double per_second = 0;     ///< over the last 10 s, or since the job began if that is less
  int64_t last_number = -1;  ///< -1 = none finished yet, or steps carry no numbers
  int64_t last_dur_ns = 0;
  NodeTime last_end;
};

class StepRate {
 public:
  explicit StepRate(const TableReader* reader) : reader_(reader) {}
  /// By group (LaneFacts::GroupOf). The last step of a rank is remembered between calls.
  const std::map<int64_t, RankSteps>& Update(const JobSnapshot& job, const LaneFacts& lanes, NodeTime now);
  /// Drops what is remembered of runs not in `keep`.
  void KeepOnly(const std::vector<RunId>& keep);

 private:
  const TableReader* reader_;
  std::map<RunId, std::map<int64_t, RankSteps>> runs_;
};

}  // namespace stepscope
