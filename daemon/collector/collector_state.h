// SPDX-License-Identifier: Apache-2.0
// How a collector stands on this machine: what `stepscope doctor` prints and an operator acts on.
#pragma once

#include <map>
#include <string>

#include "absl/status/status.h"

namespace stepscope {

struct CollectorState {
  std::string name;       ///< sched, agent, counters, host
  std::string level;      ///< full, own, none: which rights it works with
  std::string state;      ///< on, idle, off, unavailable, absent (not on this node)
  std::string reason;     ///< the step that failed and its errno; empty when all is well
  std::string next_step;  ///< what to change to get the next level; empty when all is well
  std::map<std::string, std::string> numbers;
  std::string failed_step{};  ///< of the way to the next level, without its errno; empty at the highest
  std::string error{};        ///< errno of that step by name (EPERM); empty if it did not fail by one
  std::string works{};        ///< what this level records
  std::string lacks{};        ///< what the next level would add
};

/// A Status made by ErrnoStatus ("step: EPERM: text; next step") taken apart into failed_step, error, reason and next_step.
CollectorState DescribeFailure(const absl::Status& status);

}  // namespace stepscope
