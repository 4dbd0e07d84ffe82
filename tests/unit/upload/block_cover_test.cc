// SPDX-License-Identifier: Apache-2.0
#include "daemon/upload/block_cover.h"

#include <gtest/gtest.h>

#include <random>

namespace stepscope {
namespace {

constexpr RunId kRun{1};

PendingBlock Block(TableId table, uint32_t slot, uint16_t shard, uint32_t seq, uint64_t bytes = 100) {
  return {{kRun, table, slot, shard, seq}, bytes, 10};
}

BlockCover CoverOf(const store::v1::UploadPart& part) {
  BlockCover cover;
  for (const store::v1::UploadFile& file : part.files()) cover.Add(file);
  return cover;
}

TEST(BlockCover, TellsBlocksOfOneSeqApart) {
  BlockCover cover;
  cover.Add({kRun, TableId::kSpan, 5, 2, 9});
  EXPECT_TRUE(cover.Contains({kRun, TableId::kSpan, 5, 2, 9}));
  EXPECT_FALSE(cover.Contains({kRun, TableId::kCounter, 5, 2, 9}));
  EXPECT_FALSE(cover.Contains({kRun, TableId::kSpan, 6, 2, 9}));
  EXPECT_FALSE(cover.Contains({kRun, TableId::kSpan, 5, 3, 9}));
  EXPECT_FALSE(cover.Contains({kRun, TableId::kSpan, 5, 2, 8}));
}

TEST(CutPart, HasAFilePerTableWithItsRows) {
  std::vector<PendingBlock> pending = {Block(TableId::kSpan, 5, 0, 1), Block(TableId::kSchedSlice, 5, 0, 0),
                                       Block(TableId::kSpan, 6, 0, 2)};
  const store::v1::UploadPart part = CutPart(pending, 1 << 20);
  EXPECT_TRUE(pending.empty());
  ASSERT_EQ(part.files_size(), 2);
  EXPECT_EQ(part.files(0).table(), static_cast<uint32_t>(TableId::kSpan));
  EXPECT_EQ(part.files(0).rows(), 20u);
  EXPECT_EQ(part.files(0).blocks(), 2u);
  EXPECT_EQ(part.files(1).rows(), 10u);
  EXPECT_EQ(part.first_slot(), 5u);
  EXPECT_EQ(part.last_slot(), 6u);
  EXPECT_EQ(part.state(), store::v1::UploadPart::PLANNED);
}

TEST(CutPart, EndsAtItsBytesButTakesAtLeastOneBlock) {
  std::vector<PendingBlock> pending = {Block(TableId::kSpan, 1, 0, 0, 500), Block(TableId::kSpan, 2, 0, 1, 60),
                                       Block(TableId::kSpan, 3, 0, 2, 60), Block(TableId::kSpan, 4, 0, 3, 60)};
  EXPECT_EQ(CutPart(pending, 100).files(0).blocks(), 1u);
  EXPECT_EQ(CutPart(pending, 100).files(0).blocks(), 2u);
  EXPECT_EQ(CutPart(pending, 100).files(0).blocks(), 1u);
  EXPECT_TRUE(pending.empty());
}

TEST(CutPart, KeepsLongRowsOutOfItsSlots) {
  std::vector<PendingBlock> pending = {Block(TableId::kSpan, kLongSlot, 0, 0), Block(TableId::kSpan, 8, 0, 1)};
  const store::v1::UploadPart part = CutPart(pending, 1 << 20);
  EXPECT_EQ(part.first_slot(), 8u);
  EXPECT_EQ(part.last_slot(), 8u);
}

TEST(CutPart, NeighboursShareARange) {
  std::vector<PendingBlock> pending;
  for (uint32_t seq = 0; seq < 100; ++seq) pending.push_back(Block(TableId::kSpan, 5, 0, seq));
  EXPECT_EQ(CutPart(pending, 1 << 20).files(0).ranges_size(), 1);
}

TEST(CutPart, PutsEveryBlockInExactlyOnePart) {
  std::mt19937 random(7);
  std::vector<PendingBlock> all;
  for (uint32_t i = 0; i < 500; ++i) {
    const TableId table = i % 3 == 0 ? TableId::kSpan : TableId::kSchedSlice;
    all.push_back(Block(table, i % 17 == 0 ? kLongSlot : i / 9, static_cast<uint16_t>(i % 4), i / 4, random() % 300));
  }
  std::vector<PendingBlock> pending = all;
  std::vector<BlockCover> parts;
  while (!pending.empty()) parts.push_back(CoverOf(CutPart(pending, 1000)));
  EXPECT_GT(parts.size(), 20u);
  for (const PendingBlock& block : all) {
    int times = 0;
    for (const BlockCover& part : parts) times += part.Contains(block.key);
    EXPECT_EQ(times, 1);
  }
}

}  // namespace
}  // namespace stepscope
