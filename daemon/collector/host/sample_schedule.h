// SPDX-License-Identifier: Apache-2.0
// When each source is to be asked. Ticks lie on multiples of the source's period in node time, so they do not drift, sources
// with related periods share their wake-ups, and a tick that comes too late is known as skipped instead of shifting the rest.
//
// Thread rule: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/time.h"

namespace stepscope {

class SampleSchedule {
 public:
  /// One source per period, each >= 1 ns.
  explicit SampleSchedule(const std::vector<int64_t>& periods_ns);

  /// The first tick of each source is the next multiple of its period after `now`.
  void Start(NodeTime now);

  struct Due {
    size_t source = 0;
    int64_t skipped = 0;  ///< ticks between the last one taken and this one; their places are [skipped_from, now)
    NodeTime skipped_from;
  };
  /// Sources whose tick has come; their next ones lie after `now`.
  std::vector<Due> Take(NodeTime now);

  /// The earliest tick to come.
  NodeTime Next() const;

 private:
  struct Source {
    int64_t period_ns;
    NodeTime next;
  };
  std::vector<Source> sources_;
};

}  // namespace stepscope
