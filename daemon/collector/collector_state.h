// SPDX-License-Identifier: Apache-2.0
// How a collector stands on this machine: what `stepscope doctor` prints and an operator acts on.
#pragma once

#include <map>
#include <string>

namespace stepscope {

struct CollectorState {
  std::string name;       ///< sched, agent, counters, host
  std::string level;      ///< full, own, none: which rights it works with
  std::string state;      ///< on, idle, off, unavailable
  std::string reason;     ///< the step that failed and its errno; empty when all is well
  std::string next_step;  ///< what to change to get the next level; empty when all is well
  std::map<std::string, std::string> numbers;
};

}  // namespace stepscope
