// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/process_clock.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace stepscope {
namespace {

class ProcessClockTest : public testing::Test {
 protected:
  ProcessClockTest()
      : proc_(std::filesystem::path(testing::TempDir()) / ("process_clock." + std::to_string(getpid()))), clock_(proc_.string()) {
    std::filesystem::create_directories(proc_ / "42" / "task" / "42");
    std::ofstream(proc_ / "42" / "stat") << "42 (a) b (c) S 7 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 3 0 9000 1 1 1\n";
    std::ofstream(proc_ / "42" / "task" / "42" / "schedstat") << "1000 200 3\n";
  }
  ~ProcessClockTest() override { std::filesystem::remove_all(proc_); }

  std::filesystem::path proc_;
  ProcessClock clock_;
  const ProcessKey process_{Pid{42}, 9000};
};

TEST_F(ProcessClockTest, ReadsPastACommandWithParentheses) {
  EXPECT_EQ(clock_.Parent(process_)->value, 7);
  EXPECT_EQ(*clock_.CpuNs(process_), 200 * (kNsPerSecond / sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(clock_.MainThread(process_)->running_ns, 1000);
  EXPECT_EQ(clock_.MainThread(process_)->runnable_ns, 200);
}

TEST_F(ProcessClockTest, APidThatIsNowAnotherProcessIsGone) {
  const ProcessKey earlier{Pid{42}, 8999};
  EXPECT_FALSE(clock_.CpuNs(earlier));
  EXPECT_FALSE(clock_.MainThread(earlier));
  EXPECT_FALSE(clock_.Parent(ProcessKey{Pid{43}, 9000}));
}

TEST_F(ProcessClockTest, SaysWhySchedstatIsMissing) {
  EXPECT_NE(clock_.SchedStatProblem().find("CONFIG_SCHED_INFO"), std::string::npos);
  std::filesystem::create_directories(proc_ / "self");
  std::ofstream(proc_ / "self" / "schedstat") << "1 1 1\n";
  EXPECT_EQ(clock_.SchedStatProblem(), "");
}

}  // namespace
}  // namespace stepscope
