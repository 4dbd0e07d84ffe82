// SPDX-License-Identifier: Apache-2.0
#include "storage/parquet/wall_clock_map.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(WallClockMap, UsesTheStartOfTheRunWithoutSamples) {
  WallClockMap map({1000}, {5'000'000});
  map.Freeze();
  EXPECT_EQ(map.At({1500}).ns, 5'000'500);
  EXPECT_EQ(map.At({400}).ns, 4'999'400);
}

TEST(WallClockMap, FollowsAStepFromTheSampleThatSawIt) {
  WallClockMap map({1000}, {5'000'000});
  map.Add({3000}, {9'003'000});
  map.Add({2000}, {5'001'000});
  map.Freeze();
  EXPECT_EQ(map.At({2999}).ns, 5'001'999);
  EXPECT_EQ(map.At({3000}).ns, 9'003'000);
  EXPECT_EQ(map.At({3001}).ns, 9'003'001);
  EXPECT_EQ(map.At({1999}).ns, 5'000'999);  // and back again
}

}  // namespace
}  // namespace stepscope
