// SPDX-License-Identifier: Apache-2.0
// The sources against this machine's own kernel: /proc, software events, a cgroup with a quota. What the machine does not allow
// is skipped by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <thread>

#include "base/proc_stat.h"
#include "base/unique_fd.h"
#include "daemon/collector/host/cgroup_pressure.h"
#include "daemon/collector/host/cpu_list.h"
#include "daemon/collector/host/cpu_times.h"
#include "daemon/collector/host/cpu_topology.h"
#include "daemon/collector/host/perf_counters.h"
#include "tests/unit/host/fake_tree.h"
#include "tests/unit/host/test_cgroup.h"

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

/// A child that uses `cpu_ns` of CPU in a cgroup, and then sleeps until it is dropped.
class CgroupChild {
 public:
  CgroupChild(const TestCgroup& cgroup, int64_t cpu_ns) {
    int ends[2];
    if (pipe(ends) != 0) return;
    pid_ = fork();
    if (pid_ == 0) {
      if (!cgroup.Take(0)) _exit(1);
      BurnCpu(cpu_ns);
      if (write(ends[1], "x", 1) != 1) _exit(1);
      while (true) pause();
    }
    close(ends[1]);
    const unique_fd done(ends[0]);
    char byte = 0;
    if (read(done.get(), &byte, 1) == 1) key_ = {Pid{pid_}, ReadProcStat(Pid{pid_})->start_ticks};
  }
  ~CgroupChild() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  /// {0, 0} if it could not be started.
  ProcessKey key() const { return key_; }

 private:
  pid_t pid_ = -1;
  ProcessKey key_{};
};

TEST(HostLiveTest, ThrottledTimeIsTheKernelsOwn) {
  TestCgroup cgroup("quota");
  // A hundredth of a CPU, which is less than a busy machine leaves it.
  if (const std::string why = cgroup.LimitCpu(std::chrono::milliseconds(1)); !why.empty()) GTEST_SKIP() << why;
  const CgroupChild child(cgroup, 5'000'000);  // five quotas: it is throttled in four periods
  ASSERT_NE(child.key(), ProcessKey{});
  const std::string path = cgroup.path();
  CgroupPressure source({});
  source.Start();
  const auto before = static_cast<double>(cgroup.ThrottledNs());
  const KeptValues values = SampleOf(source, {child.key()});
  const auto after = static_cast<double>(cgroup.ThrottledNs());
  EXPECT_GT(values("cgroup.throttled_ns_total", path), 0);
  EXPECT_GE(values("cgroup.throttled_ns_total", path), before);
  EXPECT_LE(values("cgroup.throttled_ns_total", path), after);
  EXPECT_GE(values("cgroup.throttled_periods_total", path), 1);
  EXPECT_GE(values("cgroup.periods_total", path), values("cgroup.throttled_periods_total", path));
}

TEST(HostLiveTest, ACgroupRemovedWhileItIsReadIsSilentAndItsProcessIsFollowedToTheNext) {
  constexpr char kThrottled[] = "cgroup.throttled_ns_total";
  auto home = std::make_unique<TestCgroup>("0");
  if (const std::string why = home->LimitCpu(std::chrono::milliseconds(50)); !why.empty()) GTEST_SKIP() << why;
  const CgroupChild child(*home, 0);
  ASSERT_NE(child.key(), ProcessKey{});
  CgroupPressure source({});
  source.Start();
  std::atomic<bool> stopping = false;
  std::atomic<int> samples = 0, wrong = 0;
  std::thread reader([&] {
    for (; !stopping; ++samples) {
      const KeptValues values = SampleOf(source, {child.key()});
      for (int move = 0; move <= 50; ++move) {
        const std::string path = fmt::format("/stepscope_test_{}_{}", getpid(), move);
        if (values.Has(kThrottled, path) && values(kThrottled, path) != 0) ++wrong;  // nobody runs there
      }
    }
  });
  for (int move = 1; move <= 50; ++move) {
    auto next = std::make_unique<TestCgroup>(std::to_string(move));
    ASSERT_TRUE(next->Take(child.key().pid.value));
    EXPECT_TRUE(home->Remove());
    home = std::move(next);
    for (const int seen = samples; samples < seen + 3;) usleep(100);
  }
  stopping = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
  for (int tick = 0; tick < 10; ++tick) SampleOf(source, {child.key()});
  const KeptValues values = SampleOf(source, {child.key()});
  EXPECT_TRUE(values.Has(kThrottled, home->path()));
  for (int move = 0; move < 50; ++move)
    EXPECT_FALSE(values.Has(kThrottled, fmt::format("/stepscope_test_{}_{}", getpid(), move)));
  EXPECT_EQ(source.State().state, "on");
}

}  // namespace
}  // namespace stepscope
