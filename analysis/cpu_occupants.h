// SPDX-License-Identifier: Apache-2.0
// Who held the CPU while threads waited for one: sums of sched_wait rows. A wait is counted where it begins, whole.
#pragma once

#include <compare>
#include <cstdint>
#include <map>

#include "analysis/time_range.h"
#include "trace/batch.h"

namespace stepscope {

struct OccupantKey {
  uint32_t waiter_lane = 0;  ///< of the thread that waited
  OccupantClass klass = OccupantClass::kUnknown;
  int64_t process = 0;  ///< host tgid of the occupant; 0 = none to name
  int64_t name = 0;     ///< NameId value of its thread name
  friend auto operator<=>(const OccupantKey&, const OccupantKey&) = default;
};

class CpuOccupants {
 public:
  explicit CpuOccupants(TimeRange window) : window_(window) {}
  /// Rows of sched_wait, interned.
  void Add(const Batch& batch);
  /// ns each held; over one waiter they add up to its waits of 20 us and more.
  const std::map<OccupantKey, int64_t>& ns() const { return ns_; }

 private:
  TimeRange window_;
  std::map<OccupantKey, int64_t> ns_;
};

/// "kernel", "same user", … for people and JSON.
const char* OccupantClassText(OccupantClass klass);

}  // namespace stepscope
