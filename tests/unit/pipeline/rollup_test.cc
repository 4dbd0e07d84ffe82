// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/rollup.h"

#include <gtest/gtest.h>

#include "base/time.h"
#include "stepscope/store/v1/store.pb.h"

namespace stepscope {
namespace {

Batch OneSlice(int64_t on, int64_t dur, int64_t wait) {
  Batch batch = Batch::For(TableId::kSchedSlice, RunId{1});
  batch.interned = true;
  batch.Append(3, {on, dur, wait, 0, 0, 0, 0, 0, 0, 1, dur, wait, 0, 0, 0});
  return batch;
}

int64_t Sum(const std::vector<RollupRow>& rows, const std::string& name) {
  int64_t sum = 0;
  for (const RollupRow& row : rows) {
    store::v1::MinuteRollup minute;
    minute.ParseFromString(row.value);
    for (const auto& series : minute.series()) {
      if (series.name() != name) continue;
      for (const int64_t value : series.values()) sum += value;
    }
  }
  return sum;
}

const auto kProcess = [](uint32_t) { return EntityId{2}; };

TEST(RollupTest, AnIntervalIsSplitOverSecondsAndMinutesAndSumsToItself) {
  Rollup rollup(RunId{1}, [](uint32_t) { return std::string(); });
  const int64_t on = 59 * kNsPerSecond + kNsPerSecond / 2;
  rollup.Add(OneSlice(on, 2 * kNsPerSecond, 3 * kNsPerSecond), kProcess);
  const auto rows = rollup.Dirty();
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(Sum(rows, "running_ns"), 2 * kNsPerSecond);
  EXPECT_EQ(Sum(rows, "runnable_ns"), 3 * kNsPerSecond);
  EXPECT_EQ(Sum(rows, "switches"), 1);
}

TEST(RollupTest, ALateRowIsAddedToTheStoredMinute) {
  std::map<uint32_t, std::string> stored;
  Rollup first(RunId{1}, [](uint32_t) { return std::string(); });
  first.Add(OneSlice(0, 100, 0), kProcess);
  for (const auto& row : first.Dirty()) stored[row.minute] = row.value;
  Rollup second(RunId{1}, [&](uint32_t minute) { return stored[minute]; });
  second.Add(OneSlice(200, 50, 0), kProcess);
  EXPECT_EQ(Sum(second.Dirty(), "running_ns"), 150);
}

TEST(RollupTest, AnAbsurdlyLongRowCostsBoundedWork) {
  Rollup rollup(RunId{1}, [](uint32_t) { return std::string(); });
  rollup.Add(OneSlice(0, INT64_MAX / 4, 0), kProcess);
  EXPECT_LE(rollup.Dirty().size(), 1500u);
}

}  // namespace
}  // namespace stepscope
