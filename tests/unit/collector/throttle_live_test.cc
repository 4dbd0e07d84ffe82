// SPDX-License-Identifier: Apache-2.0
// A quota of CPU time against what is recorded under it, on the running kernel: the waits behind throttled turns are the time
// the cgroup's own cpu.stat says it was throttled. Needs a cgroup with the cpu controller; skipped with the reason.
#include <chrono>

#include "sched_live.h"
#include "tests/unit/host/test_cgroup.h"

namespace stepscope {
namespace {

constexpr int64_t kPeriodNs = 100 * kNsPerMillisecond;

class Throttle : public SchedLive {
 protected:
  Throttle() : SchedLive("hog") {}

  TestCgroup cgroup_{"throttle"};
};

TEST_F(Throttle, TheWaitsBehindThrottledTurnsAreTheCgroupsThrottledTime) {
  if (const std::string why = cgroup_.LimitCpu(std::chrono::milliseconds(20)); !why.empty()) GTEST_SKIP() << why;
  StartWith({});
  if (IsSkipped()) return;
  ASSERT_TRUE(cgroup_.Take(process_.pid()));
  TrackThenExec();
  const auto before = ReadBefore();
  ASSERT_EQ(before.size(), 2u);
  const int64_t throttled_before_ns = cgroup_.ThrottledNs();
  const int64_t periods_before = cgroup_.ThrottledPeriods();
  ASSERT_EQ(process_.Do("run 300"), "done");  // ms of CPU: fifteen quotas
  const auto after = RecordedProcess::Books(process_.pid());
  ASSERT_TRUE(collector_->Flush().ok());
  ExpectExactBooks(before, after);

  int64_t waited_ns = 0, turns = 0;
  for (const auto& [tid, books] : before) {
    bool was_throttled = false;
    for (const auto& row : RowsSince(tid)) {
      if (was_throttled) waited_ns += row[slice_column::kWait];
      was_throttled = (row[slice_column::kState] & 0xff) == static_cast<int64_t>(SliceState::kThrottled);
      turns += was_throttled;
    }
  }
  const int64_t throttled_ns = cgroup_.ThrottledNs() - throttled_before_ns;
  EXPECT_GE(cgroup_.ThrottledPeriods() - periods_before, 10);
  EXPECT_GE(turns, 10);
  EXPECT_NEAR(static_cast<double>(waited_ns), static_cast<double>(throttled_ns), static_cast<double>(kPeriodNs));
}

}  // namespace
}  // namespace stepscope
