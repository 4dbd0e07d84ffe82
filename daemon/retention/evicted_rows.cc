// SPDX-License-Identifier: Apache-2.0
#include "daemon/retention/evicted_rows.h"

#include <algorithm>

namespace stepscope {
namespace {

constexpr int64_t kHourNs = 3600 * kNsPerSecond;

}  // namespace

void EvictedStretch::Merge(const EvictedStretch& other) {
  begin = rows == 0 ? other.begin : std::min(begin, other.begin);
  end = std::max(end, other.end);
  rows += other.rows;
  bytes += other.bytes;
}

void EvictedRows::Place(Stretches& stretches, const EvictedStretch& stretch) {
  stretches.by_position[stretch.begin.ns / (stretches.hours * kHourNs)].Merge(stretch);
}

void EvictedRows::Widen(Stretches& stretches) {
  stretches.hours *= 2;
  for (const auto& [position, stretch] : std::exchange(stretches.by_position, {})) Place(stretches, stretch);
}

void EvictedRows::Add(TableId table, Uploaded uploaded, const EvictedStretch& stretch) {
  if (stretch.rows == 0) return;
  Stretches& stretches = tables_[{uploaded, table}];
  Place(stretches, stretch);
  while (stretches.by_position.size() > kMostPerTable) Widen(stretches);
}

void EvictedRows::Load(const Batch& loss, Uploaded uploaded) {
  const auto& c = loss.columns;
  for (size_t row = 0; row < loss.rows(); ++row) {
    const NodeTime begin{c[loss_column::kStart][row]};
    Add(static_cast<TableId>(c[loss_column::kTable][row]), uploaded,
        {begin, begin + c[loss_column::kDur][row], static_cast<uint64_t>(c[loss_column::kCount][row]),
         static_cast<uint64_t>(c[loss_column::kBytes][row])});
  }
}

Batch EvictedRows::Rows(Uploaded uploaded) const {
  Batch loss = Batch::For(TableId::kLoss, run_);
  loss.interned = true;
  for (const auto& [key, stretches] : tables_) {
    if (key.first != uploaded) continue;
    for (const auto& [position, s] : stretches.by_position) {
      loss.Append(0, {s.begin.ns, s.end - s.begin, static_cast<int64_t>(LossStage::kRetention), 0,
                      static_cast<int64_t>(LossReason::kEvicted), static_cast<int64_t>(key.second), static_cast<int64_t>(s.rows),
                      static_cast<int64_t>(s.bytes)});
    }
  }
  return loss;
}

}  // namespace stepscope
