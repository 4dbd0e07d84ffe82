// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/cpu_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "daemon/collector/host/cpu_list.h"
#include "daemon/collector/host/cpu_topology.h"
#include "tests/unit/host/fake_tree.h"

namespace stepscope {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kStat[] =
    "cpu  110 20 30 400 5 6 7 80 0 0\n"
    "cpu0 100 20 10 200 2 3 4 30 0 0\n"
    "cpu3 10 0 20 200 3 3 3 50 0 0\n"
    "intr 1157 0 0 7\n"
    "ctxt 21802889\nbtime 1796129091\nprocesses 251818\nprocs_running 9\nprocs_blocked 2\nsoftirq 46 0 7\n";

double Ticks(int64_t ticks) { return static_cast<double>(ticks) * 1e9 / static_cast<double>(sysconf(_SC_CLK_TCK)); }

TEST(CpuTimesTest, TimesOfEachCpuAndOfTheNodeAreNanoseconds) {
  FakeTree tree;
  tree.Write("/proc/stat", kStat);
  CpuTimes source({.root = tree.root()});
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("cpu.steal_ns_total"), Ticks(80));
  EXPECT_EQ(values("cpu.steal_ns_total", "cpu0"), Ticks(30));
  EXPECT_EQ(values("cpu.steal_ns_total", "cpu3"), Ticks(50));
  EXPECT_EQ(values("cpu.softirq_ns_total", "cpu3"), Ticks(3));
  EXPECT_EQ(values("cpu.user_ns_total", "cpu0"), Ticks(120)) << "nice time is user time";
  EXPECT_EQ(values("cpu.runnable_tasks"), 9);
  EXPECT_EQ(values("cpu.blocked_tasks"), 2);
  EXPECT_EQ(values("cpu.context_switches_total"), 21802889);
  EXPECT_FALSE(values.Has("cpu.steal_ns_total", "cpu1")) << "an offline CPU has no value";
  EXPECT_EQ(values.size(), 3u * 7 + 4);
}

TEST(CpuTimesTest, TheLinesBehindAVeryLongInterruptLineAreRead) {
  FakeTree tree;
  std::string interrupts = "intr 1";
  for (int line = 0; line < 50'000; ++line) interrupts += " 0";
  tree.Write("/proc/stat", "cpu  1 1 1 1 1 1 1 1 0 0\n" + interrupts + "\nprocs_running 4\n");
  CpuTimes source({.root = tree.root()});
  EXPECT_EQ(SampleOf(source)("cpu.runnable_tasks"), 4);
}

TEST(CpuTimesTest, WithoutProcfsItIsUnavailableAndSaysNothing) {
  FakeTree tree;
  CpuTimes source({.root = tree.root()});
  EXPECT_EQ(source.State().state, "unavailable");
  EXPECT_THAT(source.State().reason, HasSubstr("/proc/stat"));
  EXPECT_EQ(SampleOf(source).size(), 0u);
}

TEST(CpuTopologyTest, EachCpuHasItsMemoryNode) {
  FakeTree tree;
  tree.Write("/sys/devices/system/node/online", "0-1\n");
  tree.Write("/sys/devices/system/node/node0/cpulist", "0,2\n");
  tree.Write("/sys/devices/system/node/node1/cpulist", "1,3\n");
  CpuTopology source(tree.root());
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("cpu.numa_node", "cpu2"), 0);
  EXPECT_EQ(values("cpu.numa_node", "cpu3"), 1);
  EXPECT_EQ(source.State().numbers.at("nodes"), "2");
}

TEST(CpuListTest, RangesAndSinglesAreRead) {
  EXPECT_THAT(ParseCpuList("0-3,8,10-11\n"), ElementsAre(0, 1, 2, 3, 8, 10, 11));
  EXPECT_THAT(ParseCpuList("\n"), IsEmpty());
  EXPECT_THAT(ParseCpuList("3-1"), IsEmpty());
  EXPECT_THAT(ParseCpuList("1,x"), ElementsAre(1));
  EXPECT_THAT(ParseCpuList("0-99999999"), IsEmpty());
}

}  // namespace
}  // namespace stepscope
