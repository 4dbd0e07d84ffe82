// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/retention/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/storage/temp_dir.h"

namespace stepscope {
namespace {

TEST(ReplayTest, AFewDaysUnderASmallCapKeepEveryOutlierAndFindingAndCountTheRest) {
  const TempDir dir;
  ReplayPlan plan;
  plan.days = 2;
  plan.max_bytes = 16 << 20;
  plan.outlier_every = 200;
  plan.finding_every = 300;
  plan.directory = dir.path() + "/store";
  const ReplayResult result = Replay(plan);
  EXPECT_THAT(result.faults, testing::IsEmpty());
  EXPECT_GT(result.outliers, 5u);
  EXPECT_GT(result.findings, 5u);
  EXPECT_GT(result.evicted_rows, result.rows / 10);
  EXPECT_LT(result.most_disk_bytes, 24u << 20) << "the log and the write buffers are at least 1 MiB each";
}

}  // namespace
}  // namespace stepscope
