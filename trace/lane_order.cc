// SPDX-License-Identifier: Apache-2.0
#include "trace/lane_order.h"

#include <algorithm>
#include <numeric>

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

bool IsIdentity(const std::vector<uint32_t>& row_at) {
  for (uint32_t i = 0; i < row_at.size(); ++i) {
    if (row_at[i] != i) return false;
  }
  return true;
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
  order.row_at.resize(batch.rows());
  for (uint32_t row = 0; row < batch.rows(); ++row) order.row_at[next[count.number[row]]++] = row;

  const std::vector<int64_t>& start = batch.columns[0];
  const auto earlier = [&](uint32_t a, uint32_t b) { return start[a] < start[b]; };
  for (const LaneRange& lane : order.lanes) {
    const auto first = order.row_at.begin() + lane.first_row;
    if (!std::is_sorted(first, first + lane.rows, earlier)) std::stable_sort(first, first + lane.rows, earlier);
  }
  if (IsIdentity(order.row_at)) order.row_at.clear();
  return order;
}

}  // namespace stepscope
