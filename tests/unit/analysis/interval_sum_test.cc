// SPDX-License-Identifier: Apache-2.0
#include "analysis/interval_sum.h"

#include <gtest/gtest.h>

#include <bitset>
#include <random>

namespace stepscope {
namespace {

TEST(IntervalSum, CountsNestedAndOverlappingIntervalsOnce) {
  IntervalSum sum;
  sum.Add(10, 30);
  sum.Add(15, 20);
  sum.Add(25, 40);
  sum.Add(60, 70);
  sum.Seal();
  EXPECT_EQ(sum.TotalNs(), 40);
  EXPECT_EQ(sum.OverlapNs(0, 100), 40);
  EXPECT_EQ(sum.OverlapNs(20, 65), 25);
}

TEST(IntervalSum, ReversedAndEmptyAddNothing) {
  IntervalSum sum;
  sum.Add(5, 5);
  sum.Add(9, 3);
  sum.Seal();
  EXPECT_EQ(sum.TotalNs(), 0);
  EXPECT_EQ(sum.OverlapNs(0, 10), 0);
  EXPECT_EQ(sum.OverlapNs(10, 0), 0);
}

TEST(IntervalSum, AgreesWithCountingEveryNanosecond) {
  constexpr int64_t kEnd = 200;
  std::mt19937 random(7);
  std::uniform_int_distribution<int64_t> any(-5, kEnd + 5);
  for (int round = 0; round < 2000; ++round) {
    IntervalSum sum;
    std::bitset<kEnd> covered;
    for (int i = static_cast<int>(random() % 12); i > 0; --i) {
      const int64_t begin = any(random);
      const int64_t end = begin + static_cast<int64_t>(random() % 40) - 5;
      sum.Add(begin, end);
      for (int64_t t = std::max<int64_t>(0, begin); t < std::min(end, kEnd); ++t) covered.set(static_cast<size_t>(t));
    }
    sum.Seal();
    const int64_t from = static_cast<int64_t>(random() % kEnd);
    const int64_t to = static_cast<int64_t>(random() % kEnd);
    int64_t expected = 0;
    for (int64_t t = from; t < to; ++t) expected += covered.test(static_cast<size_t>(t)) ? 1 : 0;
    ASSERT_EQ(sum.OverlapNs(from, to), expected) << "round " << round;
  }
}

}  // namespace
}  // namespace stepscope
