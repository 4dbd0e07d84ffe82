// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/place.h"

#include <algorithm>
#include <optional>

namespace stepscope {
namespace {

using PlacedColumn = std::vector<std::optional<PlacedTime>>;

bool DurationIsEndReading(TableId table) { return table == TableId::kSpan || table == TableId::kLoss; }

/// Puts node times into a column of readings; rows without a place are marked.
PlacedColumn PlaceTimes(std::vector<int64_t>& column, ClockId clock, const ClockRegistry& clocks, NodeTime latest,
                        std::vector<uint8_t>& lost) {
  PlacedColumn placed = clocks.PlaceAll(clock, column);
  for (size_t row = 0; row < column.size(); ++row) {
    const std::optional<PlacedTime>& place = placed[row];
    if (place && place->time.ns >= 0 && place->time <= latest) {
      column[row] = place->time.ns;
    } else {
      lost[row] = 1;
    }
  }
  return placed;
}

/// Turns the readings at the end of the rows into durations. An end may lie before its start by what the map is unsure of.
void PlaceEnds(Batch& batch, const ClockRegistry& clocks, NodeTime latest, const PlacedColumn& starts,
               std::vector<uint8_t>& lost) {
  std::vector<int64_t>& column = batch.columns[1];
  const PlacedColumn ends = PlaceTimes(column, batch.clock, clocks, latest, lost);
  for (size_t row = 0; row < column.size(); ++row) {
    const std::optional<PlacedTime>&start = starts[row], &end = ends[row];
    if (lost[row] != 0 || !start || !end) continue;
    const int64_t dur_ns = column[row] - batch.columns[0][row];
    if (dur_ns < -(start->error_ns + end->error_ns)) lost[row] = 1;
    column[row] = std::max<int64_t>(dur_ns, 0);
  }
}

/// Takes the marked rows out and returns how many there were.
size_t Remove(const std::vector<uint8_t>& lost, Batch& batch) {
  const auto removed = static_cast<size_t>(std::ranges::count(lost, uint8_t{1}));
  if (removed == 0) return 0;
  size_t kept = 0;
  for (size_t row = 0; row < lost.size(); ++row) {
    if (lost[row] != 0) continue;
    batch.lane[kept] = batch.lane[row];
    for (auto& column : batch.columns) column[kept] = column[row];
    ++kept;
  }
  batch.lane.resize(kept);
  for (auto& column : batch.columns) column.resize(kept);
  return removed;
}

}  // namespace

size_t PlaceBatch(Batch& batch, const ClockRegistry& clocks, NodeTime latest) {
  const TableSpec* spec = FindTable(batch.table);
  if (batch.clock == ClockId{} || spec == nullptr) return 0;
  std::vector<uint8_t> lost(batch.rows(), 0);
  PlacedColumn starts;
  for (size_t c = 0; c < spec->columns.size(); ++c) {
    if (spec->columns[c].kind != ColumnKind::kTime) continue;
    PlacedColumn placed = PlaceTimes(batch.columns[c], batch.clock, clocks, latest, lost);
    if (c == 0) starts = std::move(placed);
  }
  if (DurationIsEndReading(batch.table)) PlaceEnds(batch, clocks, latest, starts, lost);
  batch.clock = {};
  return Remove(lost, batch);
}

}  // namespace stepscope
