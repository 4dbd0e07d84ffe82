// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/retention/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/storage/temp_dir.h"

namespace stepscope {
namespace {

#if defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

TEST(ReplayTest, AFewDaysUnderASmallCapKeepEveryOutlierAndFindingAndCountTheRest) {
  const TempDir dir;
  ReplayPlan plan;
  plan.days = kSanitized ? 0.6 : 2;
  plan.rows_per_step = kSanitized ? 1500 : 800;
  plan.max_bytes = 32 << 20;
  plan.outlier_every = 200;
  plan.finding_every = 300;
  plan.directory = dir.path() + "/store";
  const ReplayResult result = Replay(plan);
  EXPECT_THAT(result.faults, testing::IsEmpty());
  EXPECT_GT(result.outliers, 1u);
  EXPECT_GT(result.findings, 1u);
  EXPECT_GT(result.evicted_rows, result.rows / 10);
  EXPECT_LT(result.most_disk_bytes, plan.max_bytes);
}

}  // namespace
}  // namespace stepscope
