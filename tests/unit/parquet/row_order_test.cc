// SPDX-License-Identifier: Apache-2.0
#include "storage/parquet/row_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <tuple>

namespace stepscope {
namespace {

DecodedBlock BlockOf(const std::vector<std::pair<uint32_t, int64_t>>& lane_and_start) {
  Batch batch = Batch::For(TableId::kStackSample, RunId{1});
  batch.interned = true;
  for (const auto& [lane, start] : lane_and_start) batch.Append(lane, {start, 0});
  return *DecodeBlock(*EncodeBlock(batch));
}

std::vector<std::pair<uint32_t, int64_t>> Ordered(const std::vector<DecodedBlock>& blocks) {
  std::vector<std::pair<uint32_t, int64_t>> rows;
  for (const RowRef at : LaneOrder(blocks))
    rows.push_back({blocks[at.block].batch.lane[at.row], blocks[at.block].batch.columns[0][at.row]});
  return rows;
}

TEST(RowOrder, OfNoBlocksIsEmpty) { EXPECT_TRUE(LaneOrder({}).empty()); }

TEST(RowOrder, JoinsALaneOverBlocks) {
  const std::vector<DecodedBlock> blocks = {BlockOf({{7, 10}, {3, 5}}), BlockOf({{3, 20}, {7, 11}})};
  EXPECT_EQ(Ordered(blocks), (std::vector<std::pair<uint32_t, int64_t>>{{3, 5}, {3, 20}, {7, 10}, {7, 11}}));
}

TEST(RowOrder, MergesBlocksThatOverlapInTime) {
  const std::vector<DecodedBlock> blocks = {BlockOf({{3, 10}, {3, 30}}), BlockOf({{3, 20}, {4, 1}}), BlockOf({{3, 5}})};
  EXPECT_EQ(Ordered(blocks), (std::vector<std::pair<uint32_t, int64_t>>{{3, 5}, {3, 10}, {3, 20}, {3, 30}, {4, 1}}));
}

TEST(RowOrder, EqualsASortOfAnyBlocks) {
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::vector<DecodedBlock> blocks;
    std::vector<std::pair<uint32_t, int64_t>> expected;
    for (int b = 0; b < 5; ++b) {
      std::vector<std::pair<uint32_t, int64_t>> rows(random() % 40);
      for (auto& row : rows) row = {random() % 4, random() % 100};
      expected.insert(expected.end(), rows.begin(), rows.end());
      blocks.push_back(BlockOf(rows));
    }
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(Ordered(blocks), expected);
  }
}

}  // namespace
}  // namespace stepscope
