// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/proc_node.h"

#include <gtest/gtest.h>

#include "tests/unit/host/device_trees.h"

namespace stepscope {
namespace {

TEST(ProcNode, MemoryIsInBytesAndPageCountsStayCounts) {
  const FakeTree tree;
  WriteNodeFiles(tree);
  ProcNode source({tree.root()});
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("mem.total_bytes"), 65536 * 1024.0);
  EXPECT_EQ(values("mem.available_bytes"), 32768 * 1024.0);
  EXPECT_EQ(values("mem.huge_pages"), 7);
  EXPECT_FALSE(values.Has("mem.swap_free_bytes")) << "the file does not say it";
}

TEST(ProcNode, ADiskIsCountedOnceWithItsPartitionsInside) {
  const FakeTree tree;
  WriteNodeFiles(tree);
  ProcNode source({tree.root()});
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("disk.reads_total", "nvme0n1"), 100);
  EXPECT_EQ(values("disk.read_bytes_total", "nvme0n1"), 2000 * 512.0);
  EXPECT_EQ(values("disk.written_bytes_total", "nvme0n1"), 6000 * 512.0);
  EXPECT_EQ(values("disk.busy_ns_total", "nvme0n1"), 80e6);
  EXPECT_EQ(values("disk.in_flight", "nvme0n1"), 2);
  EXPECT_EQ(values("disk.reads_total", "cciss/c0d0"), 11) << "a disk with a slash, and the columns of an old kernel";
  for (const char* left_out : {"nvme0n1p1", "loop0", "ram0"}) EXPECT_FALSE(values.Has("disk.reads_total", left_out)) << left_out;
}

TEST(ProcNode, WithoutSysfsPartitionsAreKeptBecauseNothingTellsThem) {
  const FakeTree tree;
  WriteNodeFiles(tree);
  tree.Remove("/sys");
  ProcNode source({tree.root()});
  EXPECT_TRUE(SampleOf(source).Has("disk.reads_total", "nvme0n1p1"));
}

TEST(ProcNode, TheNetworkIsThatOfProcessOneAndEndsOfVirtualCablesAreLeftOut) {
  const FakeTree tree;
  WriteNodeFiles(tree);
  ProcNode source({tree.root()});
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("net.received_bytes_total", "eth0"), 123456) << "the kernel leaves no blank between a name and a large number";
  EXPECT_EQ(values("net.received_drops_total", "eth0"), 2);
  EXPECT_EQ(values("net.sent_bytes_total", "eth0"), 654321);
  EXPECT_EQ(values("net.sent_errors_total", "eth0"), 3);
  EXPECT_EQ(values("net.received_bytes_total", "eth0:1"), 7);
  EXPECT_TRUE(values.Has("net.received_bytes_total", "lo"));
  for (const char* left_out : {"vethab12", "docker0"}) EXPECT_FALSE(values.Has("net.sent_bytes_total", left_out)) << left_out;
}

TEST(ProcNode, WhereProcessOneIsHiddenTheDaemonsOwnNetworkIsRead) {
  const FakeTree tree;
  WriteNodeFiles(tree);
  tree.Remove("/proc/1");
  ProcNode source({tree.root()});
  EXPECT_EQ(SampleOf(source)("net.received_bytes_total", "eth0"), 1);
}

TEST(ProcNode, ALineThatIsCutIsNotBelieved) {
  const FakeTree tree;
  tree.Write("/proc/meminfo", "MemTotal:       65536 kB\nMemFree:        10");
  tree.Write("/proc/diskstats", " 259 0 nvme0n1 100 1 2000 30 400 5\n");
  ProcNode source({tree.root()});
  const KeptValues values = SampleOf(source);
  EXPECT_TRUE(values.Has("mem.total_bytes"));
  EXPECT_EQ(values.size(), 1U);
}

TEST(ProcNode, StateNamesTheFilesThatAreMissing) {
  const FakeTree tree;
  EXPECT_EQ(ProcNode({tree.root()}).State().state, "unavailable");
  WriteNodeFiles(tree);
  tree.Remove("/proc/diskstats");
  ProcNode source({tree.root()});
  source.Start();
  EXPECT_EQ(source.State().state, "on");
  EXPECT_EQ(source.State().reason, "cannot read " + tree.root() + "/proc/diskstats");
  EXPECT_FALSE(source.State().next_step.empty());
  source.Stop();
  EXPECT_EQ(source.State().state, "idle");
}

TEST(ProcNode, ThisMachineHasMemoryAndANetwork) {
  ProcNode source({""});
  const KeptValues values = SampleOf(source);
  EXPECT_GT(values("mem.total_bytes"), values("mem.free_bytes"));
  EXPECT_TRUE(values.Has("net.received_bytes_total", "lo"));
}

}  // namespace
}  // namespace stepscope
