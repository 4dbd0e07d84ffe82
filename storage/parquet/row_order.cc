// SPDX-License-Identifier: Apache-2.0
#include "storage/parquet/row_order.h"

#include <algorithm>
#include <tuple>

namespace stepscope {
namespace {

struct LaneRun {
  uint32_t lane = 0;
  int64_t first_start = 0;
  uint32_t block = 0;
  uint32_t first_row = 0;
  uint32_t rows = 0;
};

std::vector<LaneRun> LaneRuns(std::span<const DecodedBlock> blocks) {
  std::vector<LaneRun> runs;
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    const std::vector<int64_t>& start = blocks[b].batch.columns[0];
    for (const BlockLane& lane : blocks[b].lanes) {
      if (lane.rows > 0) runs.push_back({lane.lane, start[lane.first_row], b, lane.first_row, lane.rows});
    }
  }
  std::sort(runs.begin(), runs.end(), [](const LaneRun& a, const LaneRun& b) {
    return std::tie(a.lane, a.first_start, a.block) < std::tie(b.lane, b.first_start, b.block);
  });
  return runs;
}

}  // namespace

std::vector<RowRef> LaneOrder(std::span<const DecodedBlock> blocks) {
  const auto start_of = [&](RowRef at) { return blocks[at.block].batch.columns[0][at.row]; };
  std::vector<RowRef> order;
  size_t lane_begin = 0;
  bool overlap = false;
  const auto finish_lane = [&] {
    if (overlap) {
      std::stable_sort(order.begin() + static_cast<ptrdiff_t>(lane_begin), order.end(),
                       [&](RowRef a, RowRef b) { return start_of(a) < start_of(b); });
    }
    lane_begin = order.size();
    overlap = false;
  };
  const std::vector<LaneRun> runs = LaneRuns(blocks);
  for (size_t i = 0; i < runs.size(); ++i) {
    if (i > 0 && runs[i].lane != runs[i - 1].lane) finish_lane();
    if (order.size() > lane_begin && start_of(order.back()) > runs[i].first_start) overlap = true;
    for (uint32_t row = 0; row < runs[i].rows; ++row) order.push_back({runs[i].block, runs[i].first_row + row});
  }
  finish_lane();
  return order;
}

}  // namespace stepscope
