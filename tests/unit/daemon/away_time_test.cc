// SPDX-License-Identifier: Apache-2.0
#include "daemon/away_time.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/pipeline/temp_store.h"
#include "trace/block.h"

namespace stepscope {
namespace {

constexpr RunId kRun{7};
constexpr int64_t kMs = kNsPerMillisecond;

class AwayTimeTest : public testing::Test {
 protected:
  AwayTimeTest() {
    job_.run = kRun;
    job_.boot_id = "boot-1";
    job_.start_node = {10 * kNsPerSecond};
  }
  AwayTime Started(const std::string& boot = "boot-1") { return {store_.get(), &clock_, boot}; }
  void Stored(const MetaRow& sign, int64_t turn_end_ns) {
    Batch turns = Batch::For(TableId::kSchedSlice, kRun);
    turns.interned = true;
    turns.Append(1, {turn_end_ns - kMs, kMs, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    Seal seal;
    seal.blocks.push_back(
        {{kRun, TableId::kSchedSlice, static_cast<uint32_t>(turn_end_ns / kNsPerSecond), 0, 0}, *EncodeBlock(turns)});
    seal.meta.push_back(sign);
    ASSERT_TRUE(store_->Commit(seal).ok());
  }
  static int64_t BeginOf(const AwayTime::Missing& missing) { return missing.loss.columns[loss_column::kStart][0]; }
  static int64_t StageOf(const AwayTime::Missing& missing) { return missing.loss.columns[loss_column::kStage][0]; }
  static int64_t LengthOf(const AwayTime::Missing& missing) { return missing.loss.columns[loss_column::kDur][0]; }

  TempStore store_;
  FakeClock clock_;
  JobSnapshot job_;
};

TEST_F(AwayTimeTest, AfterACrashTheHoleBeginsWithTheLastTurnStored) {
  Stored(Started().Sign({90 * kNsPerSecond}), 90 * kNsPerSecond - 20 * kMs);
  const AwayTime::Missing missing = Started().Missed(job_);
  EXPECT_EQ(BeginOf(missing), 90 * kNsPerSecond - 20 * kMs);
  EXPECT_EQ(missing.end, clock_.node);
  EXPECT_EQ(BeginOf(missing) + LengthOf(missing), clock_.node.ns);
  EXPECT_EQ(StageOf(missing), static_cast<int64_t>(LossStage::kKernel));
}

TEST_F(AwayTimeTest, OfAJobThatSleptLongTheSignOfLifeTellsMore) {
  Stored(Started().Sign({90 * kNsPerSecond}), 20 * kNsPerSecond);
  EXPECT_EQ(BeginOf(Started().Missed(job_)), 90 * kNsPerSecond - 350 * kMs);
}

TEST_F(AwayTimeTest, AfterAPowerLossTheLastSecondIsMissingAndTheRunEndsWithIt) {
  Stored(Started().Sign({90 * kNsPerSecond}), 90 * kNsPerSecond - 20 * kMs);
  clock_.node = {3 * kNsPerSecond};  // the new boot's
  const AwayTime::Missing missing = Started("boot-2").Missed(job_);
  EXPECT_EQ(BeginOf(missing), 90 * kNsPerSecond - 350 * kMs);
  EXPECT_EQ(missing.end.ns, 90 * kNsPerSecond + 650 * kMs);
  EXPECT_EQ(StageOf(missing), static_cast<int64_t>(LossStage::kStore));
}

TEST_F(AwayTimeTest, WithoutASignOfLifeAllOfTheRunMayBeMissing) {
  EXPECT_EQ(BeginOf(Started().Missed(job_)), job_.start_node.ns);
  Stored(Started("boot-0").Sign({90 * kNsPerSecond}), 1 * kNsPerSecond);  // of a boot before the job's
  EXPECT_EQ(BeginOf(Started().Missed(job_)), job_.start_node.ns);
}

}  // namespace
}  // namespace stepscope
