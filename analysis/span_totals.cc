// SPDX-License-Identifier: Apache-2.0
#include "analysis/span_totals.h"

#include <algorithm>

namespace stepscope {

void SpanTotal::Add(int64_t dur_ns) {
  ++count;
  total_ns += dur_ns;
  min_ns = std::min(min_ns, dur_ns);
  max_ns = std::max(max_ns, dur_ns);
}

void SpanTotal::Merge(const SpanTotal& other) {
  count += other.count;
  total_ns += other.total_ns;
  min_ns = std::min(min_ns, other.min_ns);
  max_ns = std::max(max_ns, other.max_ns);
}

void SpanTotals::Add(const Batch& spans) {
  const auto& c = spans.columns;
  for (size_t row = 0; row < spans.rows(); ++row) {
    const NodeTime start{c[span_column::kStart][row]};
    if (start < window_.begin || start >= window_.end) continue;
    totals_[{c[span_column::kName][row], c[span_column::kDomain][row], spans.lane[row]}].Add(c[span_column::kDur][row]);
  }
}

}  // namespace stepscope
