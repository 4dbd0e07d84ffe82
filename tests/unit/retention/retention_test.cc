// SPDX-License-Identifier: Apache-2.0
#include "daemon/retention/retention.h"

#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "storage/keys.h"
#include "tests/unit/pipeline/temp_store.h"
#include "tests/unit/upload/upload_fakes.h"
#include "trace/block.h"

namespace stepscope {
namespace {

constexpr uint32_t kSeconds = 60;

class RetentionTest : public testing::Test {
 protected:
  RetentionTest() { clock_.node = {100'000 * kNsPerSecond}; }

  /// A minute of API calls that do not compress, 10 MB.
  void PutRun(RunId run, uint32_t first_slot) {
    for (uint32_t second = 0; second < kSeconds; ++second) {
      Batch calls = Batch::For(TableId::kApiCall, run);
      calls.interned = true;
      const int64_t at = int64_t{first_slot + second} * kNsPerSecond;
      for (int i = 0; i < 14'000; ++i) {
        calls.Append(1, {at + static_cast<int64_t>(random_() % 900'000'000), 1000, 1, static_cast<int64_t>(random_()), 0});
      }
      Seal seal;
      seal.blocks.push_back({{run, TableId::kApiCall, first_slot + second, 0, second}, *EncodeBlock(calls)});
      ASSERT_TRUE(store_->Commit(seal).ok());
    }
    ASSERT_TRUE(store_->Reclaim({}).ok());  // no log: what is on disk is what is stored
  }
  Retention Make(uint64_t max_bytes, uint64_t min_free = 0, uint64_t free = uint64_t{1} << 40) {
    RetentionRules rules;
    rules.max_bytes = max_bytes;
    rules.min_free_bytes = min_free;
    return Retention({store_.get(), &dictionary_, &clock_, [this] { return runs_; }, [free] { return free; }, [](RunId) {}},
                     rules);
  }
  /// Seconds of `run` that are still stored, oldest first.
  std::vector<uint32_t> Left(RunId run) {
    std::vector<uint32_t> slots;
    EXPECT_TRUE(store_
                    ->ForEachBlock(run, TableId::kApiCall, {0}, {INT64_MAX},
                                   [&](const BlockKey& key, auto) {
                                     slots.push_back(key.slot);
                                     return true;
                                   })
                    .ok());
    return slots;
  }

  std::mt19937_64 random_{3};
  TempStore store_;
  FixedDictionary dictionary_;
  FakeClock clock_;
  std::vector<RetainedRun> runs_;
};

TEST_F(RetentionTest, TheOldestEndedJobGoesFirstAndItsOldestRowsFirst) {
  PutRun({1}, 5000);
  PutRun({2}, 2000);
  PutRun({3}, 1000);
  runs_ = {{{1}, true, true, {50}}, {{2}, true, true, {40}}, {{3}, false, true, {}}};
  const uint64_t before = *store_->DiskBytes();
  ASSERT_GT(before, 25'000'000u);
  Retention retention = Make(before + 21'000'000);  // a little too full
  ASSERT_TRUE(retention.Check().ok());
  EXPECT_LE(*store_->DiskBytes(), before - before / 20);
  EXPECT_GT(*store_->DiskBytes(), before / 2);
  EXPECT_EQ(Left({1}).size(), kSeconds);
  EXPECT_EQ(Left({3}).size(), kSeconds);
  const auto left = Left({2});
  ASSERT_LT(left.size(), kSeconds);
  ASSERT_FALSE(left.empty());
  EXPECT_EQ(left.front(), 2000 + kSeconds - left.size());
}

TEST_F(RetentionTest, TheLastMinutesStayWhileThereIsAnythingElse) {
  PutRun({1}, 98'000);
  PutRun({2}, 99'000);  // within the last half hour
  runs_ = {{{1}, false, true, {}}, {{2}, true, true, {40}}};
  const uint64_t before = *store_->DiskBytes();
  Retention retention = Make(before * 4 / 10);
  ASSERT_TRUE(retention.Check().ok());
  EXPECT_TRUE(Left({1}).empty());
  EXPECT_LT(Left({2}).size(), kSeconds) << "the limit holds even so";
  EXPECT_GT(Left({2}).size(), kSeconds / 2);
  EXPECT_LE(*store_->DiskBytes(), before * 4 / 10);
}

TEST_F(RetentionTest, NodeTimeOfAnotherBootIsOld) {
  PutRun({1}, 900'000);  // far ahead of this boot's clock
  runs_ = {{{1}, true, false, {40}}};
  Retention retention = Make(*store_->DiskBytes() + (16 << 20));
  ASSERT_TRUE(retention.Check().ok());
  EXPECT_LT(Left({1}).size(), kSeconds);
}

TEST_F(RetentionTest, AFileSystemThatFillsUpMakesTheStoreSmaller) {
  PutRun({1}, 1000);
  runs_ = {{{1}, true, true, {40}}};
  const uint64_t used = *store_->DiskBytes();
  Retention retention = Make(uint64_t{1} << 40, 8'000'000, 3'000'000);
  ASSERT_TRUE(retention.Check().ok());
  EXPECT_LE(*store_->DiskBytes(), used - 5'000'000);
}

TEST_F(RetentionTest, OthersThatFillTheFileSystemDoNotCostTheLastMinutes) {
  PutRun({1}, 99'800);
  runs_ = {{{1}, false, true, {}}};
  Retention retention = Make(uint64_t{1} << 40, 1 << 30, 0);
  ASSERT_TRUE(retention.Check().ok());
  EXPECT_EQ(Left({1}).size(), kSeconds);
}

TEST_F(RetentionTest, ARunThatIsBeingDeletedIsLeftAlone) {
  PutRun({1}, 1000);
  runs_ = {{{1}, true, true, {40}}};
  Retention retention = Make(1 << 20);
  retention.Forget({1});
  ASSERT_TRUE(retention.Check().ok());
  EXPECT_EQ(Left({1}).size(), kSeconds);
}

TEST_F(RetentionTest, AWriterWaitsForALookAndIsLetGoAtTheEnd) {
  Retention retention = Make(64 << 20);
  retention.Admit(1 << 20);  // nobody looks yet, but a sixteenth is free
  std::atomic<bool> admitted = false;
  std::thread writer([&] {
    retention.Admit(4 << 20);
    admitted = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  EXPECT_FALSE(admitted);
  retention.Start();  // looks, finds the store small, gives the sixteenth anew
  writer.join();
  retention.Stop();
  retention.Admit(1 << 30);
}

}  // namespace
}  // namespace stepscope
