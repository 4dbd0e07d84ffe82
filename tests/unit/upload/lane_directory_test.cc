// SPDX-License-Identifier: Apache-2.0
#include "daemon/upload/lane_directory.h"

#include <gtest/gtest.h>

#include "tests/unit/upload/upload_fakes.h"

namespace stepscope {
namespace {

TEST(LaneDirectory, AThreadTakesNameAndRankOfItsProcess) {
  FixedDictionary dictionary;
  dictionary.entities[1] = {{EntityKind::kProcess, 10, 55, 0, ""}, "python train.py", 3, 0};
  dictionary.entities[2] = {{EntityKind::kThread, 10, 55, 12, ""}, "pt_data_pin", -1, 0};
  dictionary.entities[3] = {{EntityKind::kThread, 10, 99, 12, ""}, "other life of pid 10", -1, 0};
  const LaneDirectory lanes(dictionary, RunId{1});
  const LaneIdentity thread = lanes.Lane({2});
  EXPECT_EQ(thread.rank, 3);
  EXPECT_EQ(thread.pid, 10);
  EXPECT_EQ(thread.tid, 12);
  EXPECT_EQ(thread.process, "python train.py");
  EXPECT_EQ(thread.thread, "pt_data_pin");
  EXPECT_EQ(lanes.Lane({3}).rank, -1);
  EXPECT_EQ(lanes.Lane({3}).process, "");
}

TEST(LaneDirectory, NamesEveryKindOfLane) {
  FixedDictionary dictionary;
  dictionary.entities[1] = {{EntityKind::kCpu, 4, 0, 0, ""}, "", -1, 0};
  dictionary.entities[2] = {{EntityKind::kMetric, 10, 55, 0, "loss"}, "", -1, 0};
  dictionary.entities[3] = {{EntityKind::kThread, 10, 55, 12, ""}, "", -1, 0};
  const LaneDirectory lanes(dictionary, RunId{1});
  EXPECT_EQ(lanes.Lane({1}).name, "cpu 4");
  EXPECT_EQ(lanes.Lane({1}).pid, 0);
  EXPECT_EQ(lanes.Lane({2}).name, "loss");
  EXPECT_EQ(lanes.Lane({2}).pid, 10);
  EXPECT_EQ(lanes.Lane({3}).name, "thread 12");
}

}  // namespace
}  // namespace stepscope
