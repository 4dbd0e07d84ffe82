// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/step_rate.h"

#include <gtest/gtest.h>

#include "tests/unit/rpc/fake_node.h"

namespace stepscope {
namespace {

class StepRateTest : public testing::Test {
 protected:
  const RankSteps& Update(int64_t now_ns) {
    const LaneFacts lanes(node_.dictionary, node_.jobs, node_.run);
    return rate_.Update(node_.jobs.ByRun(node_.run).value(), lanes, NodeTime{now_ns}).at(0);
  }
  FakeNode node_;
  StepRate rate_{&node_.reader};
  const int64_t start_ = node_.clock.node.ns;
};

TEST_F(StepRateTest, CountsStepsThatEndedInTheLastTenSeconds) {
  for (int i = 0; i < 30; ++i) {
    node_.Span(FakeNode::kMain, SpanDomain::kStep, FakeNode::kStepName, start_ + i * kNsPerSecond, kNsPerSecond / 2, i);
  }
  const RankSteps steps = Update(start_ + 30 * kNsPerSecond);
  EXPECT_NEAR(steps.per_second, 1.0, 1e-9);
  EXPECT_EQ(steps.last_number, 29);
  EXPECT_EQ(steps.last_dur_ns, kNsPerSecond / 2);
}

TEST_F(StepRateTest, AYoungJobIsMeasuredOverItsAge) {
  for (int i = 0; i < 4; ++i) {
    node_.Span(FakeNode::kMain, SpanDomain::kStep, FakeNode::kStepName, start_ + i * kNsPerSecond / 2, kNsPerSecond / 4, i);
  }
  EXPECT_NEAR(Update(start_ + 2 * kNsPerSecond).per_second, 2.0, 1e-9);
}

TEST_F(StepRateTest, TheLastStepIsRememberedWhenStepsStop) {
  node_.Span(FakeNode::kMain, SpanDomain::kStep, FakeNode::kStepName, start_, kNsPerSecond, 7);
  EXPECT_EQ(Update(start_ + 2 * kNsPerSecond).last_number, 7);
  node_.rows.batches.clear();
  const RankSteps& later = Update(start_ + 60 * kNsPerSecond);
  EXPECT_EQ(later.last_number, 7);
  EXPECT_EQ(later.per_second, 0);
}

}  // namespace
}  // namespace stepscope
