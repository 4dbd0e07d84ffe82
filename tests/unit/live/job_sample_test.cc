// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/job_sample.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

constexpr int64_t kSecond = kNsPerSecond;

ProcessKey Key(int32_t pid) { return {Pid{pid}, pid * 10}; }

/// A torchrun (10) with ranks 0 (11) and 1 (12); 13 is a loader worker of rank 0.
JobSample Torchrun(int64_t rank0_running_ns, int64_t rank0_runnable_ns, int64_t cpu_ns) {
  JobSample sample;
  sample.job.ranks = {{0, 0, 2, 0, Key(11), true}, {1, 1, 2, 0, Key(12), true}};
  sample.processes[Key(10)] = {-1, Pid{1}, ThreadSums{}, 0};
  sample.processes[Key(11)] = {0, Pid{10}, ThreadSums{rank0_running_ns, rank0_runnable_ns}, cpu_ns};
  sample.processes[Key(12)] = {1, Pid{10}, ThreadSums{}, 0};
  sample.processes[Key(13)] = {0, Pid{11}, ThreadSums{}, cpu_ns};
  return sample;
}

TEST(JobSample, SharesAreGrowthOverTimeAndSumToOne) {
  const auto rows = CompareSamples(Torchrun(5, 7, 0), Torchrun(5 + kSecond / 2, 7 + kSecond / 4, kSecond), kSecond, "");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].rank(), 0);
  EXPECT_EQ(rows[0].pid(), 11);
  EXPECT_DOUBLE_EQ(rows[0].running(), 0.5);
  EXPECT_DOUBLE_EQ(rows[0].runnable(), 0.25);
  EXPECT_DOUBLE_EQ(rows[0].sleeping(), 0.25);
  EXPECT_DOUBLE_EQ(rows[0].cpus(), 2.0) << "the rank and its loader worker";
  EXPECT_DOUBLE_EQ(rows[1].sleeping(), 1.0);
}

TEST(JobSample, BooksThatGrewMoreThanTheClockAreCapped) {
  const auto rows = CompareSamples(Torchrun(0, 0, 0), Torchrun(2 * kSecond, kSecond, 0), kSecond, "");
  EXPECT_DOUBLE_EQ(rows[0].running(), 1.0);
  EXPECT_DOUBLE_EQ(rows[0].runnable(), 0.0);
  EXPECT_DOUBLE_EQ(rows[0].sleeping(), 0.0);
}

TEST(JobSample, AJobWithoutRanksShowsItsTopProcesses) {
  JobSample before = Torchrun(0, 0, 0);
  JobSample after = Torchrun(0, 0, kSecond);
  before.job.ranks.clear();
  after.job.ranks.clear();
  const auto rows = CompareSamples(before, after, kSecond, "");
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].rank(), -1);
  EXPECT_EQ(rows[0].pid(), 10);
  EXPECT_DOUBLE_EQ(rows[0].cpus(), 2.0);
}

TEST(JobSample, WhatIsNotKnownIsSaidNotInvented) {
  JobSample before = Torchrun(0, 0, 0);
  JobSample after = Torchrun(0, 0, 0);
  before.processes.erase(Key(11));
  after.processes[Key(12)].main_thread.reset();
  const auto rows = CompareSamples(before, after, kSecond, "unknown: no schedstat");
  EXPECT_EQ(rows[0].state(), "unknown: first seen in this second");
  EXPECT_EQ(rows[1].state(), "unknown: no schedstat");
  EXPECT_TRUE(CompareSamples(before, after, 0, "").empty());
}

TEST(JobSample, ARankThatIsGoneIsNotShown) {
  JobSample after = Torchrun(0, 0, 0);
  after.job.ranks[1].alive = false;
  EXPECT_EQ(CompareSamples(Torchrun(0, 0, 0), after, kSecond, "").size(), 1u);
}

}  // namespace
}  // namespace stepscope
