// SPDX-License-Identifier: Apache-2.0
#include "trace/lane_order.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <span>
#include <utility>

#include "trace/dense_index.h"

namespace stepscope {
namespace {

/// Number of each row's lane in order of first sight, and how many rows each has.
struct LaneCount {
  std::vector<uint32_t> number;
  std::vector<uint32_t> rows;
  DenseIndex index;
};

LaneCount CountLanes(const std::vector<uint32_t>& lane) {
  LaneCount count;
  count.number.resize(lane.size());
  for (size_t i = 0; i < lane.size(); ++i) {
    const uint32_t n = i > 0 && lane[i] == lane[i - 1] ? count.number[i - 1] : count.index.Of(lane[i]);
    if (n == count.rows.size()) count.rows.push_back(0);
    ++count.rows[n];
    count.number[i] = n;
  }
  return count;
}

bool IsIdentity(const std::vector<uint32_t>& position_of) {
  for (uint32_t i = 0; i < position_of.size(); ++i) {
    if (position_of[i] != i) return false;
  }
  return true;
}

/// True for a batch whose rows of each lane come in order of start.
bool LanesAreSorted(const LaneCount& count, const std::vector<int64_t>& start) {
  std::vector<int64_t> last(count.rows.size(), std::numeric_limits<int64_t>::min());
  for (size_t row = 0; row < start.size(); ++row) {
    int64_t& previous = last[count.number[row]];
    if (start[row] < previous) return false;
    previous = start[row];
  }
  return true;
}

/// Sorts rows by start. Spans come in order of their ends, an outer one a few rows behind its first inner one: insertion moves
/// each a few places where sorting anew would look at all of them; rows in no order at all are sorted after a bounded try.
template <typename Before>
void SortNearlySorted(std::span<uint32_t> rows, Before before) {
  size_t moves_left = 16 * rows.size();
  for (size_t i = 1; i < rows.size(); ++i) {
    const uint32_t row = rows[i];
    size_t at = i;
    for (; at > 0 && moves_left > 0 && before(row, rows[at - 1]); --at, --moves_left) rows[at] = rows[at - 1];
    rows[at] = row;
    if (moves_left == 0) return std::sort(rows.begin(), rows.end(), before);
  }
}

/// Sorts the rows of every lane by start and writes their new positions.
void SortLanes(LaneOrder& order, const std::vector<int64_t>& start) {
  std::vector<uint32_t> row_at(start.size());
  for (uint32_t row = 0; row < row_at.size(); ++row) row_at[order.position_of[row]] = row;
  for (const LaneRange& lane : order.lanes) {
    // Ties by row: rows of equal start stay as they came.
    SortNearlySorted(std::span(row_at).subspan(lane.first_row, lane.rows),
                     [&](uint32_t a, uint32_t b) { return start[a] != start[b] ? start[a] < start[b] : a < b; });
  }
  for (uint32_t position = 0; position < row_at.size(); ++position) order.position_of[row_at[position]] = position;
}

}  // namespace

LaneOrder OrderByLane(const Batch& batch) {
  LaneCount count = CountLanes(batch.lane);
  std::vector<uint32_t> by_id(count.rows.size());
  std::iota(by_id.begin(), by_id.end(), 0);
  const std::vector<uint64_t>& ids = count.index.keys();
  std::sort(by_id.begin(), by_id.end(), [&](uint32_t a, uint32_t b) { return ids[a] < ids[b]; });

  LaneOrder order;
  std::vector<uint32_t> next(by_id.size());
  uint32_t position = 0;
  for (uint32_t n : by_id) {
    order.lanes.push_back({static_cast<uint32_t>(ids[n]), position, count.rows[n]});
    next[n] = position;
    position += count.rows[n];
  }
  order.position_of.resize(batch.rows());
  for (size_t row = 0; row < batch.rows(); ++row) order.position_of[row] = next[count.number[row]]++;
  if (!LanesAreSorted(count, batch.columns[0])) SortLanes(order, batch.columns[0]);
  if (IsIdentity(order.position_of)) order.position_of.clear();
  return order;
}

}  // namespace stepscope
