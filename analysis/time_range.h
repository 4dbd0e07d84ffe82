// SPDX-License-Identifier: Apache-2.0
// TimeRange: the half-open interval of node time [begin, end) an analysis speaks of. A reversed range is empty.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace stepscope {

struct TimeRange {
  NodeTime begin;
  NodeTime end;

  int64_t ns() const { return std::max<int64_t>(0, end - begin); }
  /// Length of the part of [from, to) inside this range.
  int64_t Clip(int64_t from, int64_t to) const { return std::max<int64_t>(0, std::min(to, end.ns) - std::max(from, begin.ns)); }
};

}  // namespace stepscope
