// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/sample_schedule.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

TEST(SampleScheduleTest, TicksLieOnMultiplesOfThePeriodWhereverItStarts) {
  SampleSchedule schedule({100, 250});
  schedule.Start({1'030});
  EXPECT_EQ(schedule.Next().ns, 1'100);
  EXPECT_TRUE(schedule.Take({1'099}).empty());
  EXPECT_EQ(schedule.Take({1'100}).size(), 1u);
  EXPECT_EQ(schedule.Take({1'200}).size(), 1u);
  EXPECT_EQ(schedule.Next().ns, 1'250);
}

TEST(SampleScheduleTest, ATickThatIsALittleLateShiftsNothing) {
  SampleSchedule schedule({100});
  schedule.Start({0});
  const auto due = schedule.Take({170});
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].skipped, 0);
  EXPECT_EQ(schedule.Next().ns, 200);
}

TEST(SampleScheduleTest, TicksThatWereMissedAreSkippedAndCountedOnce) {
  SampleSchedule schedule({100});
  schedule.Start({0});
  const auto due = schedule.Take({430});  // 100, 200, 300 are over; this one stands for 400
  ASSERT_EQ(due.size(), 1u);
  EXPECT_EQ(due[0].skipped, 3);
  EXPECT_EQ(due[0].skipped_from.ns, 100);
  EXPECT_EQ(schedule.Next().ns, 500);
  EXPECT_EQ(schedule.Take({500})[0].skipped, 0);
}

TEST(SampleScheduleTest, TakenAndSkippedTicksAddUpToTheTimeThatPassed) {
  SampleSchedule schedule({7, 13});
  schedule.Start({0});
  int64_t ticks[2] = {};
  int64_t now = 0;
  for (int64_t step = 1; now < 100'000; now += step, step = step * 31 % 97 + 1) {
    for (const auto& due : schedule.Take({now})) ticks[due.source] += 1 + due.skipped;
  }
  for (const auto& due : schedule.Take({now})) ticks[due.source] += 1 + due.skipped;
  EXPECT_EQ(ticks[0], now / 7);
  EXPECT_EQ(ticks[1], now / 13);
}

}  // namespace
}  // namespace stepscope
