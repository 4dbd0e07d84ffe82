// SPDX-License-Identifier: Apache-2.0
// The sources against this machine's own kernel: /proc, software events, a cgroup with a quota. What the machine does not allow
// is skipped by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>

#include "base/proc_stat.h"
#include "base/unique_fd.h"
#include "daemon/collector/host/cgroup_pressure.h"
#include "daemon/collector/host/cpu_list.h"
#include "daemon/collector/host/cpu_times.h"
#include "daemon/collector/host/cpu_topology.h"
#include "daemon/collector/host/perf_counters.h"
#include "tests/unit/host/fake_tree.h"

namespace stepscope {
namespace {

using testing::HasSubstr;

std::string CpuName(int cpu) { return fmt::format("cpu{}", cpu); }

void BurnCpu(int64_t ns) {
  timespec now{};
  do {
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  } while (now.tv_sec * 1'000'000'000 + now.tv_nsec < ns);
}

TEST(HostLiveTest, TheTimesOfTheCpusAddUpToTheNodes) {
  CpuTimes source({});
  const KeptValues values = SampleOf(source);
  const double tick_ns = 1e9 / static_cast<double>(sysconf(_SC_CLK_TCK));
  for (const char* name : {"cpu.user_ns_total", "cpu.system_ns_total", "cpu.steal_ns_total", "cpu.softirq_ns_total"}) {
    double sum = 0;
    const std::vector<int> cpus = OnlineCpus("");
    for (const int cpu : cpus) sum += values(name, CpuName(cpu));
    EXPECT_NEAR(values(name), sum, tick_ns * static_cast<double>(cpus.size() * 2)) << name << " is rounded per line";
  }
  EXPECT_GT(values("cpu.user_ns_total"), 0);
  EXPECT_GE(values("cpu.runnable_tasks"), 1) << "this test is one";
}

TEST(HostLiveTest, EachOnlineCpuHasAMemoryNode) {
  CpuTopology source("");
  if (source.State().numbers.at("nodes") == "0") GTEST_SKIP() << "a kernel without NUMA";
  const KeptValues values = SampleOf(source);
  for (const int cpu : OnlineCpus("")) EXPECT_TRUE(values.Has("cpu.numa_node", CpuName(cpu))) << cpu;
}

TEST(HostLiveTest, SoftwareEventsCountOnEveryCpuAndHardwareIsThereOrSaidToBeMissing) {
  PerfCounters source({.events = "cycles,page-faults,context-switches,cpu-clock"}, KernelPerfCalls());
  if (source.State().level == "none") GTEST_SKIP() << source.State().reason;
  source.Start();
  const KeptValues before = SampleOf(source);
  constexpr size_t kPages = 3000;
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  char* const memory =
      static_cast<char*>(mmap(nullptr, kPages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  madvise(memory, kPages * page, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < kPages; ++i) memory[i * page] = 1;
  munmap(memory, kPages * page);
  const KeptValues after = SampleOf(source);

  EXPECT_GE(after("perf.page-faults_total") - before("perf.page-faults_total"), kPages);
  for (const int cpu : OnlineCpus("")) {
    EXPECT_GT(after("perf.cpu-clock_ns_total", CpuName(cpu)), before("perf.cpu-clock_ns_total", CpuName(cpu)));
    EXPECT_FALSE(after.Of("perf.cpu-clock_ns_total", CpuName(cpu)).scaled) << "software events take no turns";
  }
  const CollectorState state = source.State();
  if (state.numbers.at("hardware") == "0") {
    EXPECT_THAT(state.reason, HasSubstr("hardware counters not available (perf_event_open(cycles) on cpu 0: "));
    EXPECT_FALSE(after.Has("perf.cycles_total"));
  } else {
    EXPECT_GT(after("perf.cycles_total"), before("perf.cycles_total"));
  }
}

/// A cgroup that may use a hundredth of a CPU, which is less than a busy machine leaves it, and a child in it.
class QuotaCgroup {
 public:
  /// Why there is none; empty = all is well.
  std::string Create() {
    const CgroupMounts mounts = ReadCgroupMounts("");
    const bool is_v1 = mounts.v1_cpu.has_value();
    if (!is_v1 && !mounts.v2) return "no cgroups here";
    directory_ = fmt::format("{}/stepscope_test_{}", (is_v1 ? mounts.v1_cpu : mounts.v2)->point, getpid());
    std::error_code error;
    if (!std::filesystem::create_directory(directory_, error)) return "cannot make a cgroup: " + error.message();
    const bool is_limited =
        is_v1 ? Write("cpu.cfs_period_us", "100000") && Write("cpu.cfs_quota_us", "1000") : Write("cpu.max", "1000 100000");
    return is_limited ? "" : "the cpu controller is not on here";
  }
  ~QuotaCgroup() {
    if (child_ > 0) {
      kill(child_, SIGKILL);
      waitpid(child_, nullptr, 0);
    }
    if (!directory_.empty()) rmdir(directory_.c_str());
  }

  /// Starts a child that uses `cpu_ns` of CPU in the cgroup and then sleeps; returns when it does.
  ProcessKey RunChild(int64_t cpu_ns) {
    int ends[2];
    if (pipe(ends) != 0) return {};
    child_ = fork();
    if (child_ == 0) {
      if (!Write("cgroup.procs", "0")) _exit(1);
      BurnCpu(cpu_ns);
      if (write(ends[1], "x", 1) != 1) _exit(1);
      while (true) pause();
    }
    close(ends[1]);
    const unique_fd done(ends[0]);
    char byte = 0;
    if (read(done.get(), &byte, 1) != 1) return {};
    return {Pid{child_}, ReadProcStat(Pid{child_})->start_ticks};
  }

  /// Throttled nanoseconds as the kernel says now.
  double ThrottledNs() const {
    std::ifstream file(directory_ + "/cpu.stat");
    std::string key;
    for (double number = 0; file >> key >> number;) {
      if (key == "throttled_time") return number;
      if (key == "throttled_usec") return number * 1000;
    }
    return NAN;
  }

 private:
  bool Write(const char* name, const char* text) const {
    std::ofstream file(directory_ + "/" + name);
    file << text << std::flush;
    return file.good();
  }

  std::string directory_;
  pid_t child_ = -1;
};

TEST(HostLiveTest, ThrottledTimeIsTheKernelsOwn) {
  QuotaCgroup cgroup;
  if (const std::string why = cgroup.Create(); !why.empty()) GTEST_SKIP() << why;
  const ProcessKey child = cgroup.RunChild(5'000'000);  // five quotas: it is throttled in four periods
  ASSERT_NE(child, ProcessKey{});
  const std::string path = fmt::format("/stepscope_test_{}", getpid());
  CgroupPressure source({});
  source.Start();
  const double before = cgroup.ThrottledNs();
  const KeptValues values = SampleOf(source, {child});
  const double after = cgroup.ThrottledNs();
  EXPECT_GT(values("cgroup.throttled_ns_total", path), 0);
  EXPECT_GE(values("cgroup.throttled_ns_total", path), before);
  EXPECT_LE(values("cgroup.throttled_ns_total", path), after);
  EXPECT_GE(values("cgroup.throttled_periods_total", path), 1);
  EXPECT_GE(values("cgroup.periods_total", path), values("cgroup.throttled_periods_total", path));
}

}  // namespace
}  // namespace stepscope
