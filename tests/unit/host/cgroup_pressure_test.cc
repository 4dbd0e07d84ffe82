// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/cgroup_pressure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/host/fake_tree.h"

namespace stepscope {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr char kV2[] = "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kV1[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
constexpr char kHybrid[] =
    "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";

std::string Pressure(int64_t some_us, int64_t full_us) {
  return fmt::format("some avg10=1.00 avg60=0.00 avg300=0.00 total={}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={}\n",
                     some_us, full_us);
}

std::string V2Stat(int64_t periods, int64_t throttled, int64_t throttled_us) {
  return fmt::format("usage_usec 9\nuser_usec 5\nsystem_usec 4\nnr_periods {}\nnr_throttled {}\nthrottled_usec {}\nnr_bursts 0\n",
                     periods, throttled, throttled_us);
}

std::string V1Stat(int64_t periods, int64_t throttled, int64_t throttled_ns) {
  return fmt::format("nr_periods {}\nnr_throttled {}\nthrottled_time {}\nnr_bursts 0\nburst_time 0\n", periods, throttled,
                     throttled_ns);
}

class CgroupPressureTest : public testing::Test {
 protected:
  CgroupPressure& Started(const char* mountinfo) {
    tree_.Write("/proc/self/mountinfo", mountinfo);
    tree_.Write("/proc/pressure/cpu", Pressure(11, 0));
    tree_.Write("/proc/pressure/io", Pressure(22, 20));
    tree_.Write("/proc/pressure/memory", Pressure(33, 30));
    source_.emplace(CgroupPressure::Options{.root = tree_.root()});
    source_->Start();
    return *source_;
  }

  FakeTree tree_;
  std::optional<CgroupPressure> source_;
};

TEST_F(CgroupPressureTest, OnV2ThrottlingAndPressureComeFromTheProcesssOwnCgroup) {
  const ProcessKey process = tree_.AddProcess(10, "0::/kubepods/pod1/main\n");
  tree_.Write("/sys/fs/cgroup/kubepods/pod1/main/cpu.stat", V2Stat(100, 40, 1'234'567));
  tree_.Write("/sys/fs/cgroup/kubepods/pod1/main/memory.pressure", Pressure(500, 400));
  CgroupPressure& source = Started(kV2);
  const KeptValues values = SampleOf(source, {process});
  EXPECT_EQ(values("cgroup.throttled_ns_total", "/kubepods/pod1/main"), 1'234'567'000.0);
  EXPECT_EQ(values("cgroup.throttled_periods_total", "/kubepods/pod1/main"), 40);
  EXPECT_EQ(values("cgroup.periods_total", "/kubepods/pod1/main"), 100);
  EXPECT_EQ(values("psi.memory_some_ns_total", "/kubepods/pod1/main"), 500'000);
  EXPECT_EQ(values("psi.memory_full_ns_total", "/kubepods/pod1/main"), 400'000);
  EXPECT_EQ(values("psi.memory_some_ns_total"), 33'000) << "the node's";
  EXPECT_EQ(values("psi.io_full_ns_total"), 20'000);
  EXPECT_FALSE(values.Has("psi.cpu_some_ns_total", "/kubepods/pod1/main")) << "a file that is not there is no zero";
  EXPECT_EQ(source.State().numbers.at("hierarchy"), "v2");
}

TEST_F(CgroupPressureTest, AQuotaOfALevelAboveIsSaidAndLevelsWithoutOneAreNot) {
  const ProcessKey process = tree_.AddProcess(10, "0::/kubepods/pod1/main\n");
  tree_.Write("/sys/fs/cgroup/kubepods/pod1/main/cpu.stat", V2Stat(0, 0, 0));
  tree_.Write("/sys/fs/cgroup/kubepods/pod1/cpu.stat", V2Stat(50, 5, 77));
  tree_.Write("/sys/fs/cgroup/kubepods/cpu.stat", V2Stat(0, 0, 0));
  const KeptValues values = SampleOf(Started(kV2), {process});
  EXPECT_EQ(values("cgroup.throttled_ns_total", "/kubepods/pod1/main"), 0) << "its own is said even without a quota";
  EXPECT_EQ(values("cgroup.throttled_ns_total", "/kubepods/pod1"), 77'000);
  EXPECT_FALSE(values.Has("cgroup.throttled_ns_total", "/kubepods"));
}

TEST_F(CgroupPressureTest, OnV1ThrottledTimeIsNanosecondsOfTheCpuHierarchy) {
  const ProcessKey process = tree_.AddProcess(10, "9:name=systemd:/x\n3:cpuset:/other\n1:cpu,cpuacct:/slurm/job_7\n");
  tree_.Write("/sys/fs/cgroup/cpu,cpuacct/slurm/job_7/cpu.stat", V1Stat(10, 3, 987'654'321));
  CgroupPressure& source = Started(kV1);
  const KeptValues values = SampleOf(source, {process});
  EXPECT_EQ(values("cgroup.throttled_ns_total", "/slurm/job_7"), 987'654'321.0);
  EXPECT_EQ(source.State().numbers.at("hierarchy"), "v1");
  EXPECT_EQ(values("psi.cpu_some_ns_total"), 11'000) << "the node's pressure is there without v2";
}

TEST_F(CgroupPressureTest, OnHybridEachFileComesFromItsOwnHierarchy) {
  const ProcessKey process = tree_.AddProcess(10, "1:cpu:/docker/abc\n0::/system.slice/docker-abc.scope\n");
  tree_.Write("/sys/fs/cgroup/cpu/docker/abc/cpu.stat", V1Stat(10, 3, 42));
  tree_.Write("/sys/fs/cgroup/unified/system.slice/docker-abc.scope/io.pressure", Pressure(6, 5));
  // The v2 side of a hybrid has a cpu.stat too, without a controller behind it.
  tree_.Write("/sys/fs/cgroup/unified/system.slice/docker-abc.scope/cpu.stat", "usage_usec 3\n");
  CgroupPressure& source = Started(kHybrid);
  const KeptValues values = SampleOf(source, {process});
  EXPECT_EQ(values("cgroup.throttled_ns_total", "/docker/abc"), 42);
  EXPECT_EQ(values("psi.io_some_ns_total", "/system.slice/docker-abc.scope"), 6'000);
  EXPECT_FALSE(values.Has("cgroup.throttled_ns_total", "/system.slice/docker-abc.scope"));
  EXPECT_EQ(source.State().numbers.at("hierarchy"), "hybrid");
}

TEST_F(CgroupPressureTest, ACgroupRemovedUnderUsIsSimplySilent) {
  const ProcessKey process = tree_.AddProcess(10, "0::/job\n");
  tree_.Write("/sys/fs/cgroup/job/cpu.stat", V2Stat(1, 1, 1));
  CgroupPressure& source = Started(kV2);
  EXPECT_TRUE(SampleOf(source, {process}).Has("cgroup.throttled_ns_total", "/job"));
  tree_.Remove("/sys/fs/cgroup/job");
  EXPECT_FALSE(SampleOf(source, {process}).Has("cgroup.throttled_ns_total", "/job"));
  EXPECT_EQ(source.State().state, "on");
}

TEST_F(CgroupPressureTest, TheCgroupOfAProcessThatJustEndedIsStillRead) {
  const ProcessKey process = tree_.AddProcess(10, "0::/job\n");
  tree_.Write("/sys/fs/cgroup/job/cpu.stat", V2Stat(1, 1, 5));
  CgroupPressure& source = Started(kV2);
  SampleOf(source, {process});
  tree_.Remove("/proc/10");
  for (int tick = 0; tick < 25; ++tick) {
    EXPECT_EQ(SampleOf(source, {process})("cgroup.throttled_ns_total", "/job"), 5'000);
  }
}

TEST_F(CgroupPressureTest, AReusedPidDoesNotLendItsCgroup) {
  const ProcessKey later = tree_.AddProcess(10, "0::/somebody/else\n", /*start_ticks=*/900);
  tree_.Write("/sys/fs/cgroup/somebody/else/cpu.stat", V2Stat(1, 1, 5));
  CgroupPressure& source = Started(kV2);
  EXPECT_FALSE(SampleOf(source, {{later.pid, 500}}).Has("cgroup.throttled_ns_total", "/somebody/else"));
}

TEST_F(CgroupPressureTest, AProcessThatIsMovedIsFollowedWithinAFewSamples) {
  const ProcessKey process = tree_.AddProcess(10, "0::/login\n");
  tree_.Write("/sys/fs/cgroup/login/cpu.stat", V2Stat(1, 1, 1));
  tree_.Write("/sys/fs/cgroup/job/cpu.stat", V2Stat(2, 2, 2));
  CgroupPressure& source = Started(kV2);
  EXPECT_TRUE(SampleOf(source, {process}).Has("cgroup.throttled_ns_total", "/login"));
  tree_.AddProcess(10, "0::/job\n");
  for (int tick = 0; tick < 9; ++tick) SampleOf(source, {process});
  const KeptValues values = SampleOf(source, {process});
  EXPECT_TRUE(values.Has("cgroup.throttled_ns_total", "/job"));
  EXPECT_FALSE(values.Has("cgroup.throttled_ns_total", "/login"));
}

TEST_F(CgroupPressureTest, ValuesOfACgroupAreAboutItsProcesses) {
  const ProcessKey a = tree_.AddProcess(10, "0::/pods/a\n");
  const ProcessKey b = tree_.AddProcess(11, "0::/pods/b\n");
  tree_.Write("/sys/fs/cgroup/pods/cpu.stat", V2Stat(1, 1, 1));
  tree_.Write("/sys/fs/cgroup/pods/a/cpu.stat", V2Stat(1, 1, 1));
  tree_.Write("/sys/fs/cgroup/pods/b/cpu.stat", V2Stat(1, 1, 1));
  const KeptValues values = SampleOf(Started(kV2), {a, b});
  EXPECT_THAT(values.Of("cgroup.throttled_ns_total", "/pods/a").members, ElementsAre(a));
  EXPECT_THAT(values.Of("cgroup.throttled_ns_total", "/pods").members, UnorderedElementsAre(a, b));
}

TEST_F(CgroupPressureTest, ACgroupOutsideTheDaemonsNamespaceIsAStateNotAGuess) {
  const ProcessKey process = tree_.AddProcess(10, "0::/../../pod2/main\n");
  CgroupPressure& source = Started(kV2);
  EXPECT_EQ(SampleOf(source, {process}).size(), 6u) << "the node's pressure only";
  EXPECT_THAT(source.State().reason, HasSubstr("outside"));
  EXPECT_THAT(source.State().next_step, HasSubstr("host's cgroup namespace"));
}

TEST_F(CgroupPressureTest, WithoutCgroupsAndPressureItIsUnavailable) {
  tree_.Write("/proc/self/mountinfo", "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
  CgroupPressure source({.root = tree_.root()});
  EXPECT_EQ(source.State().state, "unavailable");
  EXPECT_THAT(source.State().reason, HasSubstr("no cgroup hierarchy"));
}

TEST(CgroupTreeTest, AMountThatShowsAPartOfTheHierarchyMapsPathsBelowIt) {
  const CgroupMount mount{"/sys/fs/cgroup", "/docker/abc"};
  EXPECT_EQ(CgroupDirectory(mount, "/docker/abc/worker"), "/sys/fs/cgroup/worker");
  EXPECT_EQ(CgroupDirectory(mount, "/docker/abc"), "/sys/fs/cgroup");
  EXPECT_EQ(CgroupDirectory(mount, "/docker/abcdef"), std::nullopt);
  EXPECT_EQ(CgroupDirectory(mount, "/system.slice"), std::nullopt);
  EXPECT_THAT(CgroupAndParents(mount, "/docker/abc/a/b"), ElementsAre("/docker/abc/a/b", "/docker/abc/a"));
}

TEST(CgroupTreeTest, TheHostsHierarchyMountedInAContainerIsPreferred) {
  FakeTree tree;
  tree.Write("/proc/self/mountinfo",
             "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n"
             "32 23 0:28 /../.. /host\\040fs/cgroup ro - cgroup2 cgroup rw\n");
  const CgroupMounts mounts = ReadCgroupMounts(tree.root());
  ASSERT_TRUE(mounts.v2);
  EXPECT_EQ(mounts.v2->point, tree.root() + "/host fs/cgroup");
  EXPECT_EQ(CgroupDirectory(*mounts.v2, "/../../system.slice/x"), tree.root() + "/host fs/cgroup/system.slice/x");
}

}  // namespace
}  // namespace stepscope
