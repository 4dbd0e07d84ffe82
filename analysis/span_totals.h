// SPDX-License-Identifier: Apache-2.0
// SpanTotals: count, sum, shortest and longest of the spans of each (name, domain, lane). Durations are whole, not cut to a
// window: a span belongs to the window it starts in.
#pragma once

#include <compare>
#include <cstdint>
#include <map>

#include "analysis/time_range.h"
#include "trace/batch.h"

namespace stepscope {

struct SpanKey {
  int64_t name = 0;
  int64_t domain = 0;
  uint32_t lane = 0;
  friend auto operator<=>(const SpanKey&, const SpanKey&) = default;
};
struct SpanTotal {
  uint64_t count = 0;
  int64_t total_ns = 0;
  int64_t min_ns = INT64_MAX;
  int64_t max_ns = 0;

  void Add(int64_t dur_ns);
  void Merge(const SpanTotal& other);
};

class SpanTotals {
 public:
  explicit SpanTotals(TimeRange window) : window_(window) {}
  void Add(const Batch& spans);
  const std::map<SpanKey, SpanTotal>& totals() const { return totals_; }

 private:
  TimeRange window_;
  std::map<SpanKey, SpanTotal> totals_;
};

}  // namespace stepscope
