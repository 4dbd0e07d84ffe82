// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "tests/unit/pipeline/temp_store.h"

namespace stepscope {
namespace {

constexpr RunId kRun{7};
const EntityKey kThread{EntityKind::kThread, 100, 5, 101, ""};

Batch Spans(int64_t start_ns, int rows, const std::string& name = "step") {
  Batch batch = Batch::For(TableId::kSpan, kRun);
  const uint32_t lane = batch.LocalEntity(kThread);
  const int64_t id = batch.LocalName(name);
  for (int i = 0; i < rows; ++i) {
    batch.Append(lane, {start_ns + i * 1000, 500, id, static_cast<int64_t>(SpanDomain::kStep), i, 1, 0, 0, 0});
  }
  return batch;
}

Delivery Of(Batch batch) {
  Delivery delivery;
  delivery.batches.push_back(std::move(batch));
  return delivery;
}

class PipelineTest : public testing::Test {
 protected:
  PipelineTest() { Restart(); }
  void Restart(const Pipeline::Options& options = {}) {
    pipeline_ = std::make_unique<Pipeline>(store_.get(), &clocks_, &clock_, options);
    pipeline_->Start();
  }
  /// Numbers of all span rows, through memory and store; a doubled row shows as a repeated number.
  std::multiset<int64_t> Numbers() {
    std::multiset<int64_t> numbers;
    const TableReader reader(store_.get(), pipeline_.get());
    EXPECT_TRUE(reader
                    .ForEachBatch(kRun, TableId::kSpan, {0}, {INT64_MAX / 2},
                                  [&](const Batch& b) {
                                    numbers.insert(b.columns[span_column::kNumber].begin(),
                                                   b.columns[span_column::kNumber].end());
                                    return true;
                                  })
                    .ok());
    return numbers;
  }

  TempStore store_;
  SystemClock clock_;
  ClockRegistry clocks_;
  std::unique_ptr<Pipeline> pipeline_;
};

TEST_F(PipelineTest, StagesAreAListOneCanPrint) {
  EXPECT_THAT(Pipeline::StageNames(), testing::ElementsAre("validate", "place", "intern", "rollup", "append", "seal"));
}

TEST_F(PipelineTest, ARowIsSeenOnceBeforeAndAfterItIsSealed) {
  ASSERT_TRUE(pipeline_->Deliver(Of(Spans(1'000'000, 100))));
  ASSERT_TRUE(pipeline_->Drain().ok());
  EXPECT_EQ(Numbers().size(), 100u);
  ASSERT_TRUE(pipeline_->Deliver(Of(Spans(2'000'000, 50))));
  ASSERT_TRUE(pipeline_->Drain().ok());
  EXPECT_EQ(Numbers().size(), 150u);
  EXPECT_EQ(pipeline_->Totals(kRun).tables[TableId::kSpan].rows, 150u);
  EXPECT_GT(pipeline_->Totals(kRun).tables[TableId::kSpan].stored_bytes, 0u);
}

TEST_F(PipelineTest, WhatNobodyWatchesWaitsForItsSealUnlessItIsMuch) {
  std::atomic<bool> watched = false;
  Pipeline::Options options;
  options.quiet_seal_after_ns = 3600 * kNsPerSecond;
  options.watched = [&] { return watched.load(); };
  Restart(options);
  const auto wait_for = [&](size_t rows) {
    for (int i = 0; i < 1000 && Numbers().size() < rows; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return Numbers().size();
  };
  ASSERT_TRUE(pipeline_->Deliver(Of(Spans(1'000'000, 1))));  // starts the clock of the seal
  ASSERT_EQ(wait_for(1), 1u);
  ASSERT_TRUE(pipeline_->Deliver(Of(Spans(2'000'000, 1))));
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(Numbers().size(), 1u);
  ASSERT_TRUE(pipeline_->Deliver(Of(Spans(3'000'000, 5000))));
  EXPECT_EQ(wait_for(5002), 5002u);
  watched = true;
  ASSERT_TRUE(pipeline_->Deliver(Of(Spans(9'000'000'000, 1))));
  EXPECT_EQ(wait_for(5003), 5003u);
  watched = false;
  ASSERT_TRUE(pipeline_->Deliver(Of(Spans(10'000'000'000, 1))));
  ASSERT_TRUE(pipeline_->Drain().ok());
  EXPECT_EQ(Numbers().size(), 5004u);
}

TEST_F(PipelineTest, ReadersNeverMissOrDoubleARowWhileSealsHappen) {
  std::atomic<int> delivered{0};
  std::thread source([&] {
    for (int i = 0; i < 200; ++i) {
      Batch one = Batch::For(TableId::kSpan, kRun);
      const uint32_t lane = one.LocalEntity(kThread);
      one.Append(lane, {i * 1000, 500, one.LocalName("x"), 0, i, 1, 0, 0, 0});
      ASSERT_TRUE(pipeline_->Deliver(Of(std::move(one))));
      if (i % 10 == 9) {
        ASSERT_TRUE(pipeline_->Drain().ok());
        delivered = i + 1;
      }
    }
  });
  while (delivered < 200) {
    const size_t at_least = static_cast<size_t>(delivered.load());
    const auto numbers = Numbers();
    ASSERT_GE(numbers.size(), at_least);
    ASSERT_EQ(std::set<int64_t>(numbers.begin(), numbers.end()).size(), numbers.size());
  }
  source.join();
}

TEST_F(PipelineTest, PositionsAreStoredWithTheRowsTheyLedToAndAcknowledgedAfterwards) {
  Delivery delivery = Of(Spans(1'000'000, 3));
  const std::string session(16, 's');
  delivery.positions.push_back({session, 4, 0, 4096, "state"});
  delivery.session_names.push_back({session, 4, 9, "step"});
  std::atomic<bool> stored_when_called = false;
  delivery.on_stored = [&](const absl::Status& status) {
    const auto positions = store_->Positions(session);
    stored_when_called = status.ok() && positions.ok() && positions->size() == 1 && positions->front().position == 4096;
  };
  ASSERT_TRUE(pipeline_->Deliver(std::move(delivery)));
  ASSERT_TRUE(pipeline_->Drain().ok());
  EXPECT_TRUE(stored_when_called);
  EXPECT_EQ(store_->SessionNames(session)->size(), 1u);
}

TEST_F(PipelineTest, ARestartedPipelineContinuesNamesEntitiesAndTotals) {
  Delivery delivery = Of(Spans(1'000'000, 3, "forward"));
  delivery.notes.push_back({kRun, kThread, "trainer", -1, 0});
  ASSERT_TRUE(pipeline_->Deliver(std::move(delivery)));
  ASSERT_TRUE(pipeline_->Drain().ok());
  const auto entities = pipeline_->Entities(kRun);
  pipeline_.reset();
  store_.Reopen();
  Restart();
  EXPECT_EQ(pipeline_->Entities(kRun).size(), entities.size());
  ASSERT_TRUE(pipeline_->Deliver(Of(Spans(5'000'000, 2, "forward"))));
  ASSERT_TRUE(pipeline_->Drain().ok());
  EXPECT_EQ(pipeline_->Totals(kRun).tables[TableId::kSpan].rows, 5u);
  EXPECT_EQ(Numbers().size(), 5u);
  EXPECT_THAT(pipeline_->Names(kRun), testing::Contains(testing::Pair(testing::_, "forward")).Times(1));
  EXPECT_THAT(pipeline_->Entities(kRun),
              testing::Contains(testing::Pair(testing::_, testing::Field(&EntityInfo::name, "trainer"))).Times(1));
}

TEST_F(PipelineTest, ABrokenBatchIsCountedAsLossAndHarmsNothingElse) {
  Batch broken = Spans(1'000'000, 4);
  broken.columns[1].pop_back();
  ASSERT_TRUE(pipeline_->Deliver(Of(std::move(broken))));
  ASSERT_TRUE(pipeline_->Deliver(Of(Spans(1'000'000, 4))));
  ASSERT_TRUE(pipeline_->Drain().ok());
  EXPECT_EQ(Numbers().size(), 4u);
  const RunTotals totals = pipeline_->Totals(kRun);
  ASSERT_EQ(totals.loss.size(), 1u);
  EXPECT_EQ(totals.loss.begin()->second.count, 4);
}

TEST_F(PipelineTest, WithoutRoomNothingIsAcknowledgedAndWithRoomEverythingIsStored) {
  std::atomic<bool> room = false;
  Pipeline::Options options;
  options.room = [&] { return room ? absl::OkStatus() : absl::ResourceExhaustedError("1 GB free"); };
  Restart(options);
  std::atomic<bool> acknowledged = false;
  Delivery delivery = Of(Spans(1'000'000, 3));
  delivery.on_stored = [&](const absl::Status& status) { acknowledged = status.ok(); };
  ASSERT_TRUE(pipeline_->Deliver(std::move(delivery)));
  EXPECT_EQ(pipeline_->Drain().code(), absl::StatusCode::kResourceExhausted) << "a full disk holds nobody up who asks";
  EXPECT_EQ(pipeline_->Health().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(acknowledged);
  EXPECT_EQ(Numbers().size(), 3u) << "readers see what waits in memory";
  room = true;
  while (!pipeline_->Health().ok()) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_TRUE(pipeline_->Drain().ok());
  EXPECT_TRUE(acknowledged);
  pipeline_.reset();
  store_.Reopen();
  Restart();
  EXPECT_EQ(Numbers().size(), 3u);
}

TEST_F(PipelineTest, EverySealHoldsASignOfLifeNoLaterThanItsLastDelivery) {
  Pipeline::Options options;
  options.sign_of_life = [](NodeTime time) { return MetaRow{"setting", "sign", std::to_string(time.ns)}; };
  Restart(options);
  const NodeTime before = clock_.Node();
  ASSERT_TRUE(pipeline_->Deliver({}));
  const NodeTime after = clock_.Node();
  ASSERT_TRUE(pipeline_->Drain().ok());
  const auto sign = store_->GetMeta("setting", "sign");
  ASSERT_TRUE(sign.ok() && sign->has_value());
  EXPECT_GE(std::stoll(**sign), before.ns);
  EXPECT_LE(std::stoll(**sign), after.ns);
}

TEST_F(PipelineTest, LongRowsAreFoundByALateQuery) {
  Batch batch = Batch::For(TableId::kSpan, kRun);
  const uint32_t lane = batch.LocalEntity(kThread);
  batch.Append(lane, {0, 100 * kNsPerSecond, batch.LocalName("long"), 0, 1, 1, 0, 0, 0});
  ASSERT_TRUE(pipeline_->Deliver(Of(std::move(batch))));
  ASSERT_TRUE(pipeline_->Drain().ok());
  size_t rows = 0;
  const TableReader reader(store_.get(), pipeline_.get());
  ASSERT_TRUE(reader
                  .ForEachBatch(kRun, TableId::kSpan, {50 * kNsPerSecond}, {51 * kNsPerSecond},
                                [&](const Batch& b) {
                                  rows += b.rows();
                                  return true;
                                })
                  .ok());
  EXPECT_EQ(rows, 1u);
}

}  // namespace
}  // namespace stepscope
