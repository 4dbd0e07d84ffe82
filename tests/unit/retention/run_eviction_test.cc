// SPDX-License-Identifier: Apache-2.0
// What each step of the order of eviction leaves of a made-up run, against a judge that looks at every block and every step.
#include "daemon/retention/run_eviction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "stepscope/store/v1/upload.pb.h"
#include "storage/keys.h"
#include "tests/unit/pipeline/temp_store.h"
#include "tests/unit/upload/upload_fakes.h"
#include "trace/block.h"

namespace stepscope {
namespace {

constexpr RunId kRun{7};
constexpr uint32_t kFirstSlot = 3000;  ///< so that the run crosses an hour
constexpr uint32_t kSlots = 1500;
constexpr uint32_t kLane = 3;

struct Made {
  BlockKey key;
  NodeTime first;
  NodeTime last;
  uint64_t rows;
};

class RunEvictionTest : public testing::Test {
 protected:
  void Restart() {
    eviction_ =
        std::make_unique<RunEviction>(RunEviction::Seams{store_.get(), &dictionary_, [](RunId) {}}, kRun, EvidenceRules{});
    ASSERT_TRUE(eviction_->Load().ok());
    ASSERT_TRUE(eviction_->Refresh().ok());
  }
  void Put(Batch batch, uint32_t slot) {
    batch.interned = true;
    Seal seal;
    const BlockKey key{kRun, batch.table, slot, 0, seq_++};
    seal.blocks.push_back({key, *EncodeBlock(batch)});
    ASSERT_TRUE(store_->Commit(seal).ok());
    const auto header = PeekHeader(seal.blocks[0].bytes);
    made_.push_back({key, header->min_time, header->max_time, header->rows});
  }
  /// A block of `rows` API calls somewhere in second `slot`.
  void PutCalls(uint32_t slot, int rows) {
    Batch calls = Batch::For(TableId::kApiCall, kRun);
    for (int i = 0; i < rows; ++i) calls.Append(kLane, {At(slot) + Below(900'000'000), Below(50'000'000), 2, i, 0});
    Put(std::move(calls), slot);
  }
  void PutStep(int64_t number, int64_t start_ns, int64_t dur_ns) {
    Batch spans = Batch::For(TableId::kSpan, kRun);
    spans.Append(kLane, {start_ns, dur_ns, 2, static_cast<int64_t>(SpanDomain::kStep), number, 1, 0, 0, 0});
    for (int i = 0; i < 3; ++i) spans.Append(kLane, {start_ns + i, 10, 3, 0, 0, 0, 1, 0, 0});
    Put(std::move(spans), SlotForRow({start_ns}, dur_ns));
    steps_.push_back({kLane, number, {start_ns}, dur_ns});
  }
  void PutFinding(int64_t start_ns, int64_t dur_ns) {
    Batch findings = Batch::For(TableId::kFinding, kRun);
    findings.Append(kLane, {start_ns, dur_ns, 2, 0, 0, 0});
    Put(std::move(findings), SlotForRow({start_ns}, dur_ns));
    findings_.push_back({{start_ns}, {start_ns + dur_ns}});
  }
  /// 25 minutes of steps of about a second, some of them slow, with calls and findings.
  void MakeRun() {
    int64_t at = At(kFirstSlot);
    for (int64_t number = 0; at < At(kFirstSlot + kSlots); ++number) {
      const int64_t dur = Below(40) == 0 ? 2'200'000'000 + Below(kNsPerSecond) : 900'000'000 + Below(200'000'000);
      PutStep(number, at, dur);
      at += dur;
    }
    for (uint32_t slot = kFirstSlot; slot < kFirstSlot + kSlots; ++slot) PutCalls(slot, 1 + static_cast<int>(Below(5)));
    for (int i = 0; i < 6; ++i) PutFinding(At(kFirstSlot) + Below(int64_t{kSlots} * kNsPerSecond), Below(kNsPerSecond));
  }
  std::set<BlockKey> Stored(TableId table) {
    std::set<BlockKey> keys;
    EXPECT_TRUE(store_
                    ->ForEachBlock(kRun, table, {0}, {INT64_MAX},
                                   [&](const BlockKey& key, auto) {
                                     keys.insert(key);
                                     return true;
                                   })
                    .ok());
    return keys;
  }
  /// Rows of retention's loss rows, by table.
  std::map<TableId, uint64_t> Lost() {
    std::map<TableId, uint64_t> lost;
    const TableReader reader(store_.get(), nullptr);
    EXPECT_TRUE(reader
                    .ForEachBatch(kRun, TableId::kLoss, {0}, {INT64_MAX},
                                  [&](const Batch& loss) {
                                    for (size_t row = 0; row < loss.rows(); ++row) {
                                      lost[static_cast<TableId>(loss.columns[loss_column::kTable][row])] +=
                                          static_cast<uint64_t>(loss.columns[loss_column::kCount][row]);
                                    }
                                    return true;
                                  })
                    .ok());
    return lost;
  }
  uint64_t RowsOf(TableId table) {
    uint64_t rows = 0;
    const TableReader reader(store_.get(), nullptr);
    EXPECT_TRUE(
        reader.ForEachBatch(kRun, table, {0}, {INT64_MAX}, [&](const Batch& batch) { return rows += batch.rows(), true; }).ok());
    return rows;
  }
  uint64_t MadeRows(TableId table) const {
    uint64_t rows = 0;
    for (const Made& block : made_) rows += block.key.table == table ? block.rows : 0;
    return rows;
  }
  /// The rules, said plainly: every block against every finding and every step.
  bool ShouldStay(const Made& block, Spares spares, uint32_t limit) const {
    if (block.key.slot >= limit) return true;
    if (spares == Spares::kNothing) return false;
    const auto touches = [&](int64_t begin, int64_t end) { return begin <= block.last.ns && end >= block.first.ns; };
    for (const TimeRange& finding : findings_) {
      if (touches(finding.begin.ns - 2 * kNsPerSecond, finding.end.ns + 2 * kNsPerSecond)) return true;
    }
    std::vector<int64_t> durations;
    for (const StepRow& step : steps_) durations.push_back(step.dur_ns);
    std::sort(durations.begin(), durations.end());
    const int64_t median = durations[(durations.size() - 1) / 2];
    for (const StepRow& step : steps_) {
      const bool outlier = step.dur_ns > median + median / 2;
      const bool sample = spares == Spares::kAllEvidence && step.number % 100 == 0;
      if ((outlier || sample) && touches(step.start.ns, step.end().ns)) return true;
    }
    return false;
  }
  static int64_t At(uint32_t slot) { return int64_t{slot} * kNsPerSecond; }
  int64_t Below(int64_t limit) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(limit)); }
  absl::StatusOr<uint64_t> EvictAll(size_t step, TableId table, uint32_t limit) {
    std::vector<BlockRange> ranges;
    return eviction_->Evict(step, table, limit, UINT64_MAX, &ranges);
  }

  std::mt19937_64 random_{17};
  TempStore store_;
  FixedDictionary dictionary_;
  std::unique_ptr<RunEviction> eviction_;
  std::vector<Made> made_;
  std::vector<StepRow> steps_;
  std::vector<TimeRange> findings_;
  uint32_t seq_ = 0;
};

TEST_F(RunEvictionTest, EachStepLeavesWhatAJudgeOfEveryBlockLeaves) {
  MakeRun();
  Restart();
  const uint32_t limit = kFirstSlot + kSlots - 200;
  for (const size_t step : {size_t{1}, size_t{2}, size_t{4}}) {
    ASSERT_TRUE(EvictAll(step, TableId::kApiCall, limit).ok());
    std::set<BlockKey> expected;
    for (const Made& block : made_) {
      if (block.key.table == TableId::kApiCall && ShouldStay(block, kEvictionSteps[step].spares, limit))
        expected.insert(block.key);
    }
    ASSERT_EQ(Stored(TableId::kApiCall), expected) << "after step " << step;
    ASSERT_GT(expected.size(), 199u);
    EXPECT_EQ(RowsOf(TableId::kApiCall) + Lost()[TableId::kApiCall], MadeRows(TableId::kApiCall));
  }
  EXPECT_EQ(RowsOf(TableId::kFinding), findings_.size());
}

TEST_F(RunEvictionTest, StepRowsOutliveTheirBlocksAndAreMerged) {
  MakeRun();
  Restart();
  ASSERT_TRUE(EvictAll(4, TableId::kSpan, kLongSlot - 1).ok());
  EXPECT_EQ(RowsOf(TableId::kSpan), steps_.size());
  EXPECT_EQ(Lost()[TableId::kSpan], 3 * steps_.size());
  const auto left = Stored(TableId::kSpan);
  EXPECT_LE(left.size(), 2u) << "one block an hour";
  for (const BlockKey& key : left) EXPECT_EQ(key.shard, kKeptShard);
}

TEST_F(RunEvictionTest, ALittleAtATimeOverRestartsComesToTheSame) {
  MakeRun();
  const uint32_t limit = kFirstSlot + kSlots - 200;
  uint64_t freed = 1;
  for (int turn = 0; freed > 0; ++turn) {
    ASSERT_LT(turn, 10'000);
    if (turn % 3 == 0) Restart();
    std::vector<BlockRange> ranges;
    freed = *eviction_->Evict(1, TableId::kApiCall, limit, 500, &ranges);
  }
  std::set<BlockKey> expected;
  for (const Made& block : made_) {
    if (block.key.table == TableId::kApiCall && ShouldStay(block, Spares::kAllEvidence, limit)) expected.insert(block.key);
  }
  EXPECT_EQ(Stored(TableId::kApiCall), expected);
  EXPECT_EQ(RowsOf(TableId::kApiCall) + Lost()[TableId::kApiCall], MadeRows(TableId::kApiCall));
}

TEST_F(RunEvictionTest, TheFirstStepTakesUploadedBlocksOnly) {
  MakeRun();
  store::v1::UploadPart part;
  part.set_state(store::v1::UploadPart::DONE);
  store::v1::UploadFile& file = *part.add_files();
  file.set_table(static_cast<uint32_t>(TableId::kApiCall));
  for (const Made& block : made_) {
    if (block.key.table != TableId::kApiCall || block.key.slot >= kFirstSlot + 500) continue;
    store::v1::UploadBlocks& range = *file.add_ranges();
    range.set_slot(block.key.slot);
    range.set_first_seq(block.key.seq);
    range.set_last_seq(block.key.seq);
  }
  ASSERT_TRUE(store_->PutUpload(kRun, 0, part.SerializeAsString()).ok());
  Restart();
  ASSERT_TRUE(EvictAll(0, TableId::kApiCall, kLongSlot - 1).ok());
  for (const Made& block : made_) {
    if (block.key.table != TableId::kApiCall) continue;
    const bool stays = block.key.slot >= kFirstSlot + 500 || ShouldStay(block, Spares::kAllEvidence, kLongSlot);
    ASSERT_EQ(Stored(TableId::kApiCall).contains(block.key), stays) << block.key.slot;
  }
}

TEST_F(RunEvictionTest, RowsOfTheLongStripeGoWhenTheyAreOld) {
  Batch calls = Batch::For(TableId::kApiCall, kRun);
  calls.Append(kLane, {At(100), 20 * kNsPerSecond, 2, 0, 0});
  Put(calls, kLongSlot);
  calls.columns[0][0] = At(9000);
  Put(calls, kLongSlot);
  Restart();
  ASSERT_TRUE(EvictAll(1, TableId::kApiCall, 7200).ok());
  EXPECT_EQ(RowsOf(TableId::kApiCall), 1u);
  EXPECT_EQ(Lost()[TableId::kApiCall], 1u);
}

}  // namespace
}  // namespace stepscope
