// SPDX-License-Identifier: Apache-2.0
// A block of the store that is not what was written: left out, told once as loss, everything else readable.
#include "daemon/pipeline/damaged_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "daemon/pipeline/pipeline.h"
#include "tests/unit/pipeline/temp_store.h"

namespace stepscope {
namespace {

constexpr RunId kRun{7};
const EntityKey kThread{EntityKind::kThread, 100, 5, 101, ""};

class DamagedBlocksTest : public testing::Test {
 protected:
  DamagedBlocksTest() {
    clock_.node = {1000 * kNsPerSecond};
    Restart();
    for (int64_t second : {10, 20, 30}) {
      Delivery delivery;
      Batch batch = Batch::For(TableId::kSpan, kRun);
      batch.Append(batch.LocalEntity(kThread), {second * kNsPerSecond, 500, batch.LocalName("step"),
                                                static_cast<int64_t>(SpanDomain::kUser), second, 1, 0, 0, 0});
      delivery.batches.push_back(std::move(batch));
      EXPECT_TRUE(pipeline_->Deliver(std::move(delivery)));
      EXPECT_TRUE(pipeline_->Drain().ok());
    }
  }
  void Restart() {
    damaged_.reset();
    pipeline_.reset();
    store_.Reopen();
    pipeline_ = std::make_unique<Pipeline>(store_.get(), &clocks_, &clock_, Pipeline::Options{});
    pipeline_->Start();
    damaged_ = std::make_unique<DamagedBlocks>(store_.get(), pipeline_.get(), &clock_);
  }
  /// Changes the bytes of the span block of that second.
  void Damage(uint32_t second, const std::function<void(std::string&)>& change) {
    Seal seal;
    ASSERT_TRUE(store_
                    ->ForEachBlock(kRun, TableId::kSpan, {0}, {INT64_MAX / 2},
                                   [&](const BlockKey& key, std::string_view bytes) {
                                     if (key.slot == second) seal.blocks.push_back({key, std::string(bytes)});
                                     return true;
                                   })
                    .ok());
    ASSERT_EQ(seal.blocks.size(), 1u);
    change(seal.blocks[0].bytes);
    ASSERT_TRUE(store_->Commit(seal).ok());
  }
  std::vector<int64_t> Column(TableId table, size_t column, absl::StatusCode wanted = absl::StatusCode::kOk) {
    std::vector<int64_t> values;
    const TableReader reader(store_.get(), pipeline_.get(), damaged_.get());
    const absl::Status status = reader.ForEachBatch(kRun, table, {0}, {INT64_MAX / 2}, [&](const Batch& batch) {
      values.insert(values.end(), batch.columns[column].begin(), batch.columns[column].end());
      return true;
    });
    EXPECT_EQ(status.code(), wanted) << status;
    EXPECT_TRUE(pipeline_->Drain().ok());
    return values;
  }
  std::vector<int64_t> Spans(absl::StatusCode wanted = absl::StatusCode::kOk) {
    return Column(TableId::kSpan, span_column::kNumber, wanted);
  }

  TempStore store_;
  FakeClock clock_;
  ClockRegistry clocks_;
  std::unique_ptr<Pipeline> pipeline_;
  std::unique_ptr<DamagedBlocks> damaged_;
};

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(DamagedBlocksTest, ItIsLeftOutAndToldOnceAlsoAfterARestart) {
  Damage(20, [](std::string& bytes) { bytes.back() = static_cast<char>(bytes.back() ^ 1); });
  EXPECT_THAT(Spans(absl::StatusCode::kDataLoss), ElementsAre(10, 30)) << "who finds it is told at once";
  EXPECT_THAT(Spans(), ElementsAre(10, 30));
  Restart();
  EXPECT_THAT(Spans(), ElementsAre(10, 30));
  EXPECT_THAT(Column(TableId::kLoss, loss_column::kReason), ElementsAre(static_cast<int64_t>(LossReason::kDamaged)));
  EXPECT_THAT(Column(TableId::kLoss, loss_column::kStage), ElementsAre(static_cast<int64_t>(LossStage::kStore)));
  EXPECT_THAT(Column(TableId::kLoss, loss_column::kCount), ElementsAre(1)) << "its header can be read";
  EXPECT_THAT(Column(TableId::kLoss, loss_column::kStart), ElementsAre(20 * kNsPerSecond));
  EXPECT_THAT(Column(TableId::kLoss, loss_column::kDur), ElementsAre(500));
}

TEST_F(DamagedBlocksTest, WithoutAHeaderItsTimeIsThatOfItsKey) {
  Damage(30, [](std::string& bytes) { bytes = "gone"; });
  EXPECT_THAT(Spans(absl::StatusCode::kDataLoss), ElementsAre(10, 20));
  EXPECT_THAT(Column(TableId::kLoss, loss_column::kStart), ElementsAre(30 * kNsPerSecond));
  EXPECT_THAT(Column(TableId::kLoss, loss_column::kDur), ElementsAre(kNsPerSecond));
  EXPECT_THAT(Column(TableId::kLoss, loss_column::kCount), ElementsAre(-1));
}

TEST_F(DamagedBlocksTest, ASoundBlockUnderTheKeyOfAnotherTableOrRunIsNotReadAsOne) {
  const auto loss = EncodeBlock([] {
    Batch batch = Batch::For(TableId::kLoss, kRun);
    batch.interned = true;
    batch.Append(1, {5, 5, 1, 1, 1, 1, 1, 1});
    return batch;
  }());
  ASSERT_TRUE(loss.ok());
  Damage(10, [&](std::string& bytes) { bytes = *loss; });
  EXPECT_THAT(Spans(absl::StatusCode::kDataLoss), ElementsAre(20, 30));
}

TEST_F(DamagedBlocksTest, EveryByteOfABlockMayBeWrong) {
  std::string sound;
  Damage(20, [&](std::string& bytes) { sound = bytes; });
  for (size_t at = 0; at < sound.size(); ++at) {
    Damage(20, [&](std::string& bytes) {
      bytes = sound;
      bytes[at] = static_cast<char>(bytes[at] ^ 0x55);
    });
    const TableReader reader(store_.get(), nullptr);
    size_t rows = 0;
    reader
        .ForEachBatch(kRun, TableId::kSpan, {0}, {INT64_MAX / 2},
                      [&](const Batch& batch) {
                        rows += batch.rows();
                        return true;
                      })
        .IgnoreError();
    EXPECT_GE(rows, 2u) << at;
  }
}

TEST_F(DamagedBlocksTest, NamesEntitiesTotalsAndMinutesThatDoNotParseAreLeftOut) {
  Seal seal;
  seal.meta = {{"totals", std::string("\0\0\0\x07", 4), "\xFF\xFF\xFF"},
               {"entity/7", std::string("\0\0\0\x01", 4), "\xFF"},
               {"entity/7", "short", "x"},
               {"entity/7", std::string("\xFF\xFF\xFF\xFF", 4), std::string("\x08\x01", 2)},
               {"seq/7", std::string("\0\0", 2), "x"}};
  seal.names = {{kRun, {0xFFFFFFFF}, "far"}, {kRun, {0}, "none"}};
  seal.rollups = {{kRun, 0, "\xFF\xFF"}};
  ASSERT_TRUE(store_->Commit(seal).ok());
  Restart();
  EXPECT_THAT(Spans(), ElementsAre(10, 20, 30));
  EXPECT_EQ(pipeline_->Name(kRun, {1}), "(unknown name 1)");
  EXPECT_LT(pipeline_->Entities(kRun).size(), 10u);
  EXPECT_THAT(Column(TableId::kLoss, loss_column::kReason), IsEmpty());
}

}  // namespace
}  // namespace stepscope
