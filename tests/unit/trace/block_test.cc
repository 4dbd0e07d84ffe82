// SPDX-License-Identifier: Apache-2.0
// Block codec: what goes in comes out in lane order, whatever the values; damaged and foreign bytes are refused with a reason.
#include "trace/block.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <tuple>

namespace stepscope {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr RunId kRun{7};

Batch Interned(TableId table) {
  Batch batch = Batch::For(table, kRun);
  batch.interned = true;
  return batch;
}

/// The oracle: rows by lane, then start, ties as they came.
Batch InLaneOrder(const Batch& batch) {
  std::vector<size_t> order(batch.rows());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return std::tuple(batch.lane[a], batch.columns[0][a], a) < std::tuple(batch.lane[b], batch.columns[0][b], b);
  });
  Batch sorted = Interned(batch.table);
  for (size_t row : order) {
    sorted.lane.push_back(batch.lane[row]);
    for (size_t c = 0; c < batch.columns.size(); ++c) sorted.columns[c].push_back(batch.columns[c][row]);
  }
  return sorted;
}

void ExpectRoundTrip(const Batch& batch) {
  const auto bytes = EncodeBlock(batch);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto block = DecodeBlock(*bytes);
  ASSERT_TRUE(block.ok()) << block.status();
  const Batch expected = InLaneOrder(batch);
  EXPECT_EQ(block->batch.table, batch.table);
  EXPECT_EQ(block->batch.run, batch.run);
  EXPECT_TRUE(block->batch.interned);
  EXPECT_EQ(block->batch.lane, expected.lane);
  for (size_t c = 0; c < expected.columns.size(); ++c) {
    EXPECT_EQ(block->batch.columns[c], expected.columns[c]) << FindTable(batch.table)->columns[c].name;
  }
}

/// Every other lane of the batch alone gives the rows of those lanes.
void ExpectLanesAlone(const Batch& batch) {
  const auto all = DecodeBlock(*EncodeBlock(batch));
  std::vector<uint32_t> wanted;
  for (size_t i = 0; i < all->lanes.size(); i += 2) wanted.push_back(all->lanes[i].lane);
  wanted.push_back(UINT32_MAX);  // no such lane
  const auto some = DecodeBlock(*EncodeBlock(batch), wanted);
  ASSERT_TRUE(some.ok()) << some.status();
  Batch expected = Interned(batch.table);
  for (size_t row = 0; row < all->batch.rows(); ++row) {
    if (!std::ranges::binary_search(wanted, all->batch.lane[row])) continue;
    expected.lane.push_back(all->batch.lane[row]);
    for (size_t c = 0; c < expected.columns.size(); ++c) expected.columns[c].push_back(all->batch.columns[c][row]);
  }
  EXPECT_EQ(some->batch.lane, expected.lane);
  EXPECT_EQ(some->batch.columns, expected.columns);
  size_t rows = 0;
  for (const BlockLane& lane : some->lanes) {
    EXPECT_EQ(lane.first_row, rows);
    rows += lane.rows;
  }
  EXPECT_EQ(rows, some->batch.rows());
}

/// How a column of a random batch is made: the shapes that make the encoder take each of its ways.
int64_t RandomValue(std::mt19937_64& random, int shape, int64_t row) {
  switch (shape) {
    case 0:
      return 0;
    case 1:
      return -1;
    case 2:
      return static_cast<int64_t>(random() % 100);
    case 3:
      return static_cast<int64_t>(random());
    case 4:
      return 1'000'000'000'000 + row * 1000 + static_cast<int64_t>(random() % 100);
    case 5:
      return static_cast<int64_t>(0x7F0000000000 + random() % 20 * 64);
    case 6:
      return random() % 2 ? std::numeric_limits<int64_t>::min() : std::numeric_limits<int64_t>::max();
    default: {
      const double value = static_cast<double>(random() % 1000) * 0.5;
      int64_t bits;
      memcpy(&bits, &value, sizeof bits);
      return bits;
    }
  }
}

Batch RandomBatch(std::mt19937_64& random, TableId table, size_t rows, uint32_t lanes) {
  Batch batch = Interned(table);
  std::vector<int> shapes(batch.columns.size());
  for (int& shape : shapes) shape = static_cast<int>(random() % 8);
  for (size_t row = 0; row < rows; ++row) {
    batch.lane.push_back(lanes == 0 ? static_cast<uint32_t>(random()) : static_cast<uint32_t>(random() % lanes));
    for (size_t c = 0; c < batch.columns.size(); ++c) {
      batch.columns[c].push_back(RandomValue(random, shapes[c], static_cast<int64_t>(row)));
    }
  }
  return batch;
}

TEST(BlockTest, RandomBatchesOfEveryTableRoundTrip) {
  std::mt19937_64 random(20240607);
  for (const TableSpec& table : AllTables()) {
    for (int repeat = 0; repeat < 40; ++repeat) {
      SCOPED_TRACE(testing::Message() << table.name << " repeat " << repeat);
      const uint32_t lanes = std::array<uint32_t, 4>{1, 3, 200, 0}[random() % 4];
      const Batch batch = RandomBatch(random, table.id, random() % 500, lanes);
      ExpectRoundTrip(batch);
      ExpectLanesAlone(batch);
      if (testing::Test::HasFailure()) return;
    }
  }
}

TEST(BlockTest, FullBlocksRoundTrip) {
  std::mt19937_64 random(1);
  for (TableId table : {TableId::kSchedSlice, TableId::kSpan, TableId::kCounter, TableId::kDeviceOp}) {
    for (int repeat = 0; repeat < 4; ++repeat) ExpectRoundTrip(RandomBatch(random, table, kMaxBlockRows, 300));
  }
}

TEST(BlockTest, EveryRowInItsOwnLaneRoundTrips) {
  Batch batch = Interned(TableId::kClockSample);
  for (uint32_t i = 0; i < 5000; ++i) batch.Append(0xFFFFFFFF - i, {i, 1, i * 3, -5, 2});
  ExpectRoundTrip(batch);
}

TEST(BlockTest, AnEmptyBlockAndASingleRowRoundTrip) {
  ExpectRoundTrip(Interned(TableId::kSpan));
  Batch one = Interned(TableId::kSpan);
  one.Append(5, {std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max(), -1, 0, 1, 0, 0, 0, 0});
  ExpectRoundTrip(one);
  EXPECT_EQ(PeekHeader(*EncodeBlock(one))->max_time.ns, std::numeric_limits<int64_t>::max());
  EXPECT_EQ(PeekHeader(*EncodeBlock(Interned(TableId::kSpan)))->rows, 0u);
}

TEST(BlockTest, TheHeaderIsReadWithoutTheBody) {
  Batch batch = Interned(TableId::kSpan);
  batch.Append(9, {500, 100, 1, 0, 0, 0, 0, 0, 0});
  batch.Append(4, {400, 900, 2, 0, 0, 0, 0, 0, 0});
  batch.Append(4, {-30, 1, 2, 0, 0, 0, 0, 0, 0});
  const std::string bytes = *EncodeBlock(batch, {.clock_maps = {3, 1'000'000}, .lanes = {}});
  const auto header = PeekHeader(std::string_view(bytes).substr(0, 40));
  ASSERT_TRUE(header.ok()) << header.status();
  EXPECT_EQ(header->table, TableId::kSpan);
  EXPECT_EQ(header->run, kRun);
  EXPECT_EQ(header->rows, 3u);
  EXPECT_EQ(header->min_time.ns, -30);
  EXPECT_EQ(header->max_time.ns, 1300);
  EXPECT_THAT(header->clock_maps, ElementsAre(3, 1'000'000));
}

TEST(BlockTest, LaneNotesComeBackWithTheirLanes) {
  Batch batch = Interned(TableId::kStackSample);
  for (uint32_t lane : {30u, 10u, 20u, 10u}) batch.Append(lane, {100, 1});
  const auto block =
      DecodeBlock(*EncodeBlock(batch, {.clock_maps = {}, .lanes = {{20, 777, true}, {10, 5, false}, {99, 1, true}}}));
  ASSERT_TRUE(block.ok()) << block.status();
  ASSERT_EQ(block->lanes.size(), 3u);
  EXPECT_EQ(block->lanes[0].lane, 10u);
  EXPECT_EQ(block->lanes[0].rows, 2u);
  EXPECT_EQ(block->lanes[0].clock_error_ns, 5u);
  EXPECT_FALSE(block->lanes[0].lossy);
  EXPECT_EQ(block->lanes[1].first_row, 2u);
  EXPECT_EQ(block->lanes[1].clock_error_ns, 777u);
  EXPECT_TRUE(block->lanes[1].lossy);
  EXPECT_EQ(block->lanes[2].clock_error_ns, 0u);
}

TEST(BlockTest, ConstantColumnsCostNothingPerRow) {
  Batch batch = Interned(TableId::kSchedSlice);
  for (int64_t i = 0; i < 60'000; ++i) batch.Append(1, {i * 1000, 500, 0, 3, 0, 0, -1, 0, 0, 0, 500, 0, 0, 0, 0});
  EXPECT_LT(EncodeBlock(batch)->size(), 400u);
  ExpectRoundTrip(batch);
}

TEST(BlockTest, BatchesThatAreNoBlockAreRefused) {
  Batch batch = Batch::For(TableId::kStackSample, kRun);
  EXPECT_THAT(EncodeBlock(batch).status().ToString(), HasSubstr("intern it before encoding"));
  batch.interned = true;
  batch.lane.push_back(1);
  EXPECT_EQ(EncodeBlock(batch).status().code(), absl::StatusCode::kInvalidArgument);
  batch.lane.assign(kMaxBlockRows + 1, 1);
  for (auto& column : batch.columns) column.assign(kMaxBlockRows + 1, 0);
  EXPECT_THAT(EncodeBlock(batch).status().ToString(), HasSubstr("too big"));
  batch.table = static_cast<TableId>(99);
  EXPECT_EQ(EncodeBlock(batch).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BlockTest, ANewerFormatIsRefusedInWords) {
  Batch batch = Interned(TableId::kStackSample);
  batch.Append(1, {2, 3});
  std::string bytes = *EncodeBlock(batch);
  bytes[5] = 9;  // a newer minor version reads
  EXPECT_EQ(DecodeBlock(bytes)->header.minor_version, 9);
  bytes[4] = 2;
  EXPECT_EQ(DecodeBlock(bytes).status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(PeekHeader(bytes).status().ToString(),
              HasSubstr("format version 2.9 and this release reads version 1; use a newer stepscope"));
}

TEST(BlockTest, EveryTruncationAndEveryFlippedByteIsSurvived) {
  std::mt19937_64 random(3);
  const std::string bytes = *EncodeBlock(RandomBatch(random, TableId::kSchedSlice, 50, 5));
  for (size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(DecodeBlock(std::string_view(bytes).substr(0, size)).ok()) << size;
  size_t refused = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] ^= 0x41;
    const auto block = DecodeBlock(damaged);
    refused += !block.ok();
    EXPECT_TRUE(!block.ok() || at < 40) << "flipped byte " << at << " of the body was not noticed";
  }
  EXPECT_GT(refused, bytes.size() * 9 / 10);
}

}  // namespace
}  // namespace stepscope
