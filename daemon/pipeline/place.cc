// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/place.h"

#include <algorithm>
#include <optional>

namespace stepscope {
namespace {

bool DurationIsEndReading(TableId table) { return table == TableId::kSpan || table == TableId::kLoss; }

std::optional<PlacedTime> Placed(const Batch& batch, const ClockRegistry& clocks, int64_t reading) {
  const auto placed = clocks.Place(batch.clock, {static_cast<uint64_t>(reading)});
  if (!placed.ok() || placed->time.ns < 0) return std::nullopt;
  return *placed;
}

/// Rewrites one row in place; false = it has no place.
bool PlaceRow(Batch& batch, const ClockRegistry& clocks, const TableSpec& spec, size_t row) {
  int64_t start_error_ns = 0;
  for (size_t c = 0; c < spec.columns.size(); ++c) {
    int64_t& value = batch.columns[c][row];
    const bool end_reading = c == 1 && DurationIsEndReading(batch.table);
    if (spec.columns[c].kind != ColumnKind::kTime && !end_reading) continue;
    const auto placed = Placed(batch, clocks, value);
    if (!placed) return false;
    if (end_reading) {
      value = placed->time.ns - batch.columns[0][row];
      if (value < -(start_error_ns + placed->error_ns)) return false;
      value = std::max<int64_t>(value, 0);
    } else {
      value = placed->time.ns;
      start_error_ns = placed->error_ns;
    }
  }
  return true;
}

}  // namespace

size_t PlaceBatch(Batch& batch, const ClockRegistry& clocks) {
  const TableSpec* spec = FindTable(batch.table);
  if (batch.clock == ClockId{} || spec == nullptr) return 0;
  size_t kept = 0;
  for (size_t row = 0; row < batch.rows(); ++row) {
    if (!PlaceRow(batch, clocks, *spec, row)) continue;
    if (kept != row) {
      batch.lane[kept] = batch.lane[row];
      for (auto& column : batch.columns) column[kept] = column[row];
    }
    ++kept;
  }
  const size_t removed = batch.rows() - kept;
  batch.lane.resize(kept);
  for (auto& column : batch.columns) column.resize(kept);
  batch.clock = {};
  return removed;
}

}  // namespace stepscope
