// SPDX-License-Identifier: Apache-2.0
#include "daemon/retention/evicted_rows.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

constexpr int64_t kHourNs = 3600 * kNsPerSecond;

struct Sum {
  int64_t rows = 0;
  int64_t bytes = 0;
};
Sum SumOf(const Batch& loss) {
  Sum sum;
  for (const int64_t rows : loss.columns[loss_column::kCount]) sum.rows += rows;
  for (const int64_t bytes : loss.columns[loss_column::kBytes]) sum.bytes += bytes;
  return sum;
}

TEST(EvictedRowsTest, OneHourOfOneTableIsOneRow) {
  EvictedRows evicted({7});
  evicted.Add(TableId::kSchedSlice, Uploaded::kNo, {{10}, {20}, 5, 50});
  evicted.Add(TableId::kSchedSlice, Uploaded::kNo, {{5}, {30}, 6, 60});
  evicted.Add(TableId::kSpan, Uploaded::kNo, {{40}, {50}, 1, 10});
  evicted.Add(TableId::kSpan, Uploaded::kYes, {{40}, {50}, 2, 20});
  const Batch rows = evicted.Rows(Uploaded::kNo);
  ASSERT_EQ(rows.rows(), 2u);
  EXPECT_EQ(rows.columns[loss_column::kTable][1], static_cast<int64_t>(TableId::kSchedSlice));
  EXPECT_EQ(rows.columns[loss_column::kStart][1], 5);
  EXPECT_EQ(rows.columns[loss_column::kDur][1], 25);
  EXPECT_EQ(rows.columns[loss_column::kCount][1], 11);
  EXPECT_EQ(rows.columns[loss_column::kStage][1], static_cast<int64_t>(LossStage::kRetention));
  EXPECT_EQ(rows.columns[loss_column::kReason][1], static_cast<int64_t>(LossReason::kEvicted));
  EXPECT_EQ(evicted.Rows(Uploaded::kYes).rows(), 1u);
}

TEST(EvictedRowsTest, ALongRunHasABoundedNumberOfRowsThatSumToAll) {
  EvictedRows evicted({7});
  for (int64_t hour = 0; hour < 24 * 365; ++hour)
    evicted.Add(TableId::kSpan, Uploaded::kNo, {{hour * kHourNs}, {hour * kHourNs + 9}, 3, 7});
  const Batch rows = evicted.Rows(Uploaded::kNo);
  EXPECT_LE(rows.rows(), EvictedRows::kMostPerTable);
  EXPECT_GT(rows.rows(), EvictedRows::kMostPerTable / 4);
  EXPECT_EQ(SumOf(rows).rows, 24 * 365 * 3);
  EXPECT_EQ(SumOf(rows).bytes, 24 * 365 * 7);

  EvictedRows again({7});
  again.Load(rows, Uploaded::kNo);
  again.Add(TableId::kSpan, Uploaded::kNo, {{24 * 365 * kHourNs}, {24 * 365 * kHourNs + 1}, 1, 1});
  EXPECT_LE(again.Rows(Uploaded::kNo).rows(), EvictedRows::kMostPerTable);
  EXPECT_EQ(SumOf(again.Rows(Uploaded::kNo)).rows, 24 * 365 * 3 + 1);
}

}  // namespace
}  // namespace stepscope
