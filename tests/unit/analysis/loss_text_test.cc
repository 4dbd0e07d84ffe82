// SPDX-License-Identifier: Apache-2.0
#include "analysis/loss_text.h"

#include <gtest/gtest.h>

#include "trace/schema.h"

namespace stepscope {
namespace {

TEST(LossText, NamesWhatItKnowsAndNumbersWhatItDoesNot) {
  EXPECT_EQ(LossStageText(static_cast<int64_t>(LossStage::kKernel)), "kernel");
  EXPECT_EQ(LossReasonText(static_cast<int64_t>(LossReason::kRingFull)), "ring full");
  EXPECT_EQ(LossReasonText(static_cast<int64_t>(LossReason::kEvicted)), "not kept");
  EXPECT_EQ(LossReasonText(static_cast<int64_t>(LossReason::kDamaged)), "damaged block");
  EXPECT_EQ(LossStageText(42), "stage 42");
  EXPECT_EQ(LossReasonText(-1), "reason -1");
  EXPECT_EQ(LossTableText(static_cast<int64_t>(TableId::kSchedSlice)), "sched_slice");
  EXPECT_EQ(LossTableText(0), "");
  EXPECT_EQ(SpanDomainText(static_cast<int64_t>(SpanDomain::kLoader)), "loader");
}

}  // namespace
}  // namespace stepscope
