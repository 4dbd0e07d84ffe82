// SPDX-License-Identifier: Apache-2.0
#include "analysis/cpu_occupants.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

struct Waits {
  Waits& Part(uint32_t lane, int64_t start, int64_t dur, int64_t part, OccupantClass klass, int64_t process, int64_t name) {
    batch.Append(lane, {start, dur, process, process, part, static_cast<int64_t>(klass), name, 0});
    return *this;
  }
  Batch batch = Batch::For(TableId::kSchedWait, RunId{1});
};

TEST(CpuOccupants, PartsOfAWaitersWaitsAreSummedByWhoHeldTheCpu) {
  CpuOccupants occupants({NodeTime{0}, NodeTime{1000}});
  occupants.Add(Waits()
                    .Part(5, 10, 100, 70, OccupantClass::kSameUser, 900, 3)
                    .Part(5, 10, 100, 30, OccupantClass::kKernel, 2, 4)
                    .Part(5, 500, 50, 50, OccupantClass::kSameUser, 900, 3)
                    .Part(6, 500, 20, 20, OccupantClass::kIdle, 0, 0)
                    .batch);
  const std::map<OccupantKey, int64_t> expected = {{{5, OccupantClass::kSameUser, 900, 3}, 120},
                                                   {{5, OccupantClass::kKernel, 2, 4}, 30},
                                                   {{6, OccupantClass::kIdle, 0, 0}, 20}};
  EXPECT_EQ(occupants.ns(), expected);
}

TEST(CpuOccupants, AWaitBelongsToTheWindowItBeginsIn) {
  CpuOccupants occupants({NodeTime{100}, NodeTime{200}});
  occupants.Add(Waits()
                    .Part(5, 99, 50, 50, OccupantClass::kKernel, 2, 4)
                    .Part(5, 199, 50, 50, OccupantClass::kOthers, 0, 0)
                    .Part(5, 200, 50, 50, OccupantClass::kUnknown, 0, 0)
                    .batch);
  const std::map<OccupantKey, int64_t> expected = {{{5, OccupantClass::kOthers, 0, 0}, 50}};
  EXPECT_EQ(occupants.ns(), expected);
}

}  // namespace
}  // namespace stepscope
