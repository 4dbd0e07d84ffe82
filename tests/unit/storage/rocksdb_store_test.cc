// SPDX-License-Identifier: Apache-2.0
// The Store contract: what a seal writes is read back, in order, and only what was asked for.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "storage/keys.h"
#include "storage/store.h"
#include "tests/unit/storage/temp_dir.h"

namespace stepscope {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::Pair;

constexpr RunId kRun{7};
const std::string kSession = "0123456789abcdef";

class StoreTest : public testing::Test {
 protected:
  void SetUp() override { Reopen(); }
  void Reopen() {
    store_.reset();
    auto opened = Store::Open({.path = dir_.path()});
    ASSERT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  static SealedBlock Block(uint32_t slot, uint32_t seq, std::string bytes, TableId table = TableId::kSpan, RunId run = kRun) {
    return {{run, table, slot, 0, seq}, std::move(bytes)};
  }
  std::vector<std::string> BlocksIn(NodeTime begin, NodeTime end, RunId run = kRun) const {
    std::vector<std::string> found;
    EXPECT_TRUE(store_
                    ->ForEachBlock(run, TableId::kSpan, begin, end,
                                   [&](const BlockKey&, std::string_view bytes) {
                                     found.emplace_back(bytes);
                                     return true;
                                   })
                    .ok());
    return found;
  }
  static NodeTime Second(int64_t s) { return {s * kNsPerSecond}; }

  TempDir dir_;
  std::unique_ptr<Store> store_;
};

TEST_F(StoreTest, ReadsBackEveryPartOfASealAfterReopening) {
  Seal seal;
  seal.blocks = {Block(100, 0, "small"), Block(101, 1, std::string(10'000, 'x'))};
  seal.meta = {{"job", "j1", "job row"}, {"entity/7", "e", "entity row"}};
  seal.names = {{kRun, {3}, "forward"}, {kRun, {2}, "step"}};
  seal.positions = {{kSession, 4, 2, 1'000'000'000'000, "state"}};
  seal.session_names = {{kSession, 4, 9, "name row"}};
  seal.rollups = {{kRun, 5, "minute 5"}, {kRun, 6, "minute 6"}};
  ASSERT_TRUE(store_->Commit(seal).ok());
  ASSERT_TRUE(store_->Sync().ok());
  ASSERT_TRUE(store_->PutUpload(kRun, 1, "part 1").ok());
  Reopen();

  EXPECT_THAT(BlocksIn(Second(100), Second(102)), ElementsAre("small", std::string(10'000, 'x')));
  EXPECT_EQ(**store_->GetMeta("job", "j1"), "job row");
  EXPECT_EQ(*store_->GetMeta("job", "j2"), std::nullopt);
  std::vector<std::pair<uint32_t, std::string>> names, rollups, uploads;
  EXPECT_TRUE(
      store_->ForEachName(kRun, [&](NameId id, std::string_view text) { return names.emplace_back(id.value, text), true; }).ok());
  EXPECT_THAT(names, ElementsAre(Pair(2, "step"), Pair(3, "forward")));
  EXPECT_TRUE(
      store_->ForEachRollup(kRun, 6, 6, [&](uint32_t m, std::string_view v) { return rollups.emplace_back(m, v), true; }).ok());
  EXPECT_THAT(rollups, ElementsAre(Pair(6, "minute 6")));
  EXPECT_TRUE(store_->ForEachUpload(kRun, [&](uint32_t p, std::string_view v) { return uploads.emplace_back(p, v), true; }).ok());
  EXPECT_THAT(uploads, ElementsAre(Pair(1, "part 1")));
  const auto positions = *store_->Positions(kSession);
  ASSERT_EQ(positions.size(), 1u);
  EXPECT_EQ(positions[0].ring, 4u);
  EXPECT_EQ(positions[0].generation, 2u);
  EXPECT_EQ(positions[0].position, 1'000'000'000'000u);
  EXPECT_EQ(positions[0].decoder_state, "state");
  const auto session_names = *store_->SessionNames(kSession);
  ASSERT_EQ(session_names.size(), 1u);
  EXPECT_EQ(session_names[0].id, 9u);
  EXPECT_EQ(session_names[0].value, "name row");
}

TEST_F(StoreTest, AQueryReadsTenSecondsPastItsEndThenTheLongStripe) {
  Seal seal;
  for (uint32_t slot : {98u, 99u, 100u, 104u, 114u, 115u}) seal.blocks.push_back(Block(slot, slot, std::to_string(slot)));
  seal.blocks.push_back(Block(kLongSlot, 1, "long"));
  seal.blocks.push_back(Block(100, 2, "other table", TableId::kSchedSlice));
  seal.blocks.push_back(Block(100, 3, "other run", TableId::kSpan, {8}));
  ASSERT_TRUE(store_->Commit(seal).ok());
  EXPECT_THAT(BlocksIn(Second(99), {Second(104).ns + 1}), ElementsAre("99", "100", "104", "114", "long"));
  EXPECT_THAT(BlocksIn(Second(200), Second(201)), ElementsAre("long"));
  EXPECT_THAT(BlocksIn(Second(99), Second(99)), IsEmpty());
  EXPECT_EQ(BlocksIn({std::numeric_limits<int64_t>::min()}, {std::numeric_limits<int64_t>::max()}).size(), 7u);
}

TEST_F(StoreTest, AVisitorStopsTheWalk) {
  Seal seal;
  seal.blocks = {Block(1, 0, "a"), Block(2, 1, "b"), Block(kLongSlot, 2, "long")};
  ASSERT_TRUE(store_->Commit(seal).ok());
  int seen = 0;
  ASSERT_TRUE(store_->ForEachBlock(kRun, TableId::kSpan, Second(0), Second(9), [&](auto&, auto) { return ++seen < 2; }).ok());
  EXPECT_EQ(seen, 2);
}

TEST_F(StoreTest, MetaKindsThatArePrefixesOfEachOtherStayApart) {
  Seal seal;
  seal.meta = {{"run", std::string("\0\1", 2), "a"}, {"run", std::string("\0\0", 2), "b"}, {"runs", "x", "c"}, {"ru", "n", "d"}};
  ASSERT_TRUE(store_->Commit(seal).ok());
  std::vector<std::string> values;
  ASSERT_TRUE(
      store_->ForEachMeta("run", [&](std::string_view, std::string_view v) { return values.emplace_back(v), true; }).ok());
  EXPECT_THAT(values, ElementsAre("b", "a"));
  seal.meta = {{"run", std::string("\0\1", 2), ""}};
  ASSERT_TRUE(store_->Commit(seal).ok());
  EXPECT_EQ(*store_->GetMeta("run", std::string("\0\1", 2)), std::nullopt);
}

TEST_F(StoreTest, NextSeqFollowsTheHighestSeqOfEachShard) {
  EXPECT_EQ(*store_->NextSeq(kRun, 0), 0u);
  Seal seal;
  seal.blocks = {Block(100, 41, "a"), Block(99, 7, "b"), {{kRun, TableId::kCounter, 100, 3, 5}, "c"}};
  ASSERT_TRUE(store_->Commit(seal).ok());
  seal.blocks = {Block(101, 8, "late")};
  ASSERT_TRUE(store_->Commit(seal).ok());
  Reopen();
  EXPECT_EQ(*store_->NextSeq(kRun, 0), 42u);
  EXPECT_EQ(*store_->NextSeq(kRun, 3), 6u);
  EXPECT_EQ(*store_->NextSeq({8}, 0), 0u);
  ASSERT_TRUE(store_->Commit(seal).ok());
  EXPECT_EQ(*store_->NextSeq(kRun, 0), 42u);
}

TEST_F(StoreTest, AnInvalidRowRejectsTheWholeSeal) {
  Seal seal;
  seal.blocks = {Block(100, 0, "never")};
  seal.positions = {{"short", 0, 0, 0, ""}};
  EXPECT_EQ(store_->Commit(seal).code(), absl::StatusCode::kInvalidArgument);
  seal.positions.clear();
  seal.meta = {{std::string("a\0b", 3), "id", "v"}};
  EXPECT_EQ(store_->Commit(seal).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(BlocksIn(Second(0), Second(200)), IsEmpty());
}

TEST_F(StoreTest, ForgettingASessionLeavesItsNeighbours) {
  std::string next = kSession;
  next.back() = 'g';
  Seal seal;
  seal.positions = {{kSession, 0, 0, 1, ""}, {next, 0, 0, 2, ""}};
  seal.session_names = {{kSession, 0, 1, "a"}, {next, 0, 1, "b"}};
  ASSERT_TRUE(store_->Commit(seal).ok());
  ASSERT_TRUE(store_->ForgetSession(kSession).ok());
  EXPECT_THAT(*store_->Positions(kSession), IsEmpty());
  EXPECT_THAT(*store_->SessionNames(kSession), IsEmpty());
  EXPECT_EQ(store_->Positions(next)->size(), 1u);
  EXPECT_EQ(store_->SessionNames(next)->size(), 1u);
}

TEST_F(StoreTest, ASessionOfHighBytesIsForgottenToo) {
  const std::string high(kSessionBytes, '\xFF');
  Seal seal;
  seal.positions = {{high, 0xFFFFFFFF, 0, 1, ""}};
  ASSERT_TRUE(store_->Commit(seal).ok());
  EXPECT_EQ(store_->Positions(high)->size(), 1u);
  ASSERT_TRUE(store_->ForgetSession(high).ok());
  EXPECT_THAT(*store_->Positions(high), IsEmpty());
}

TEST_F(StoreTest, DeletingARunRemovesItsKeysAndNoOthers) {
  Seal seal;
  for (RunId run : {RunId{6}, RunId{7}, RunId{8}, RunId{17}}) {
    seal.blocks.push_back(Block(1, 0, std::string(5000, 'b'), TableId::kSpan, run));
    seal.names.push_back({run, {1}, "n"});
    seal.rollups.push_back({run, 1, "r"});
    seal.meta.push_back({RunMetaKind("entity", run), "e", "v"});
    seal.meta.push_back({"run", RunMetaId(run), "v"});
    ASSERT_TRUE(store_->PutUpload(run, 0, "u").ok());
  }
  ASSERT_TRUE(store_->Commit(seal).ok());
  ASSERT_TRUE(store_->DeleteRun(kRun).ok());
  for (RunId run : {RunId{6}, RunId{7}, RunId{8}, RunId{17}}) {
    const size_t expected = run == kRun ? 0 : 1;
    size_t names = 0, rollups = 0, uploads = 0;
    ASSERT_TRUE(store_->ForEachName(run, [&](auto, auto) { return ++names, true; }).ok());
    ASSERT_TRUE(store_->ForEachRollup(run, 0, 9, [&](auto, auto) { return ++rollups, true; }).ok());
    ASSERT_TRUE(store_->ForEachUpload(run, [&](auto, auto) { return ++uploads, true; }).ok());
    EXPECT_EQ(BlocksIn(Second(0), Second(9), run).size(), expected);
    EXPECT_EQ(names, expected);
    EXPECT_EQ(rollups, expected);
    EXPECT_EQ(uploads, expected);
    EXPECT_EQ(store_->GetMeta(RunMetaKind("entity", run), "e")->has_value(), expected == 1);
    EXPECT_EQ(store_->GetMeta("run", RunMetaId(run))->has_value(), expected == 1);
    EXPECT_EQ(*store_->NextSeq(run, 0), expected);
  }
}

}  // namespace
}  // namespace stepscope
