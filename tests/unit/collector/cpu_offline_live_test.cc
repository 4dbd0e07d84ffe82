// SPDX-License-Identifier: Apache-2.0
// A CPU goes and comes back under the collectors, on the running kernel. Skipped with the reason where it may not be taken away;
// it is given back however this process ends.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>

#include <atomic>
#include <functional>
#include <optional>
#include <thread>

#include "base/unique_fd.h"
#include "daemon/collector/host/cpu_times.h"
#include "daemon/collector/host/perf_counters.h"
#include "daemon/collector/own/own_collector.h"
#include "sched_live.h"
#include "tests/unit/host/fake_tree.h"

namespace stepscope {
namespace {

class SpareCpu {
 public:
  SpareCpu() {
    if (access(kFile, W_OK) != 0) {
      why_ = fmt::format("{}: {}: CPU 1 may not be taken away here", kFile, strerror(errno));
      return;
    }
    StartGuard();
    const int error = Set('0');
    if (error != 0) why_ = fmt::format("{}: {}: CPU 1 may not be taken away here", kFile, strerror(error));
    Set('1');
  }
  ~SpareCpu() { Set('1'); }
  /// Why it cannot be taken away; empty = it can.
  const std::string& why() const { return why_; }
  void Take() { EXPECT_EQ(Set('0'), 0); }
  void GiveBack() { EXPECT_EQ(Set('1'), 0); }

 private:
  static constexpr char kFile[] = "/sys/devices/system/cpu/cpu1/online";

  /// errno, 0 = done.
  static int Set(char value) {
    const unique_fd file(open(kFile, O_WRONLY | O_CLOEXEC));
    return file.ok() && write(file.get(), &value, 1) == 1 ? 0 : errno;
  }
  // A process outside this one's tree that outlives it, and gives the CPU back when the pipe closes.
  void StartGuard() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) return;
    const pid_t between = fork();
    if (between == 0) {
      close(ends[1]);
      setsid();
      if (fork() != 0) _exit(0);
      char end;
      while (read(ends[0], &end, 1) > 0) {
      }
      Set('1');
      _exit(0);
    }
    waitpid(between, nullptr, 0);
    close(ends[0]);
    guard_.reset(ends[1]);
  }

  unique_fd guard_;
  std::string why_;
};

class CpuOffline : public SchedLive {
 protected:
  explicit CpuOffline(const char* scenario = "mixed") : SchedLive(scenario) {}
  void SetUp() override {
    if (!cpu_.why().empty()) GTEST_SKIP() << cpu_.why();
  }
  void ComeAndGo() {
    for (int time = 0; time < 3; ++time) {
      cpu_.Take();
      usleep(200'000);
      cpu_.GiveBack();
      usleep(200'000);
    }
  }
  /// The recorded process runs most of the time that `change` takes; the pauses let a collector built with sanitizers keep up.
  void RunDuring(const std::function<void()>& change) {
    std::atomic<bool> is_over = false;
    std::thread changer([&] {
      change();
      is_over = true;
    });
    do {
      EXPECT_EQ(process_.Do("run 100"), "done");
      usleep(5000);
    } while (!is_over);
    changer.join();
  }
  void StartOwn(OwnOptions options = {}) {
    own_ = std::make_unique<OwnCollector>(options, &rows_, &tasks_, &clock_);
    if (const absl::Status perf = own_->Start(); !perf.ok()) GTEST_SKIP() << "needs perf_event_open: " << perf;
    ASSERT_TRUE(own_->Track(Pid{process_.pid()}, kRun).ok());
    ASSERT_EQ(process_.Exec(), "ready");
  }
  void ExpectOwnTurns(const std::function<void()>& change) {
    const auto before = ReadBefore();
    ASSERT_EQ(before.size(), 6u);
    RunDuring(change);
    const auto after = RecordedProcess::Books(process_.pid());
    ASSERT_TRUE(own_->Flush().ok());
    uint64_t rows = 0;
    for (const auto& [tid, books] : before) {
      const std::vector<KeptRows::Row> turns = RowsSince(tid);
      ExpectSequential(turns);
      rows += turns.size();
    }
    const uint64_t switches = Switches(after) - Switches(before);
    EXPECT_LE(rows, switches);
    EXPECT_GE(rows + rows_.LostSlices(), switches) << "a turn is a row, or counted as lost";
    EXPECT_EQ(own_->State().numbers["unplaced"], "0");
  }
  void ExpectBooksExactDuring(const std::function<void()>& change) {
    const auto before = ReadBefore();
    ASSERT_FALSE(before.empty());
    RunDuring(change);
    const auto after = RecordedProcess::Books(process_.pid());
    ASSERT_TRUE(collector_->Flush().ok());
    ExpectExactBooks(before, after);
    EXPECT_EQ(rows_.LostSlices(), 0u);
    EXPECT_EQ(collector_->Counters().unplaced, 0u);
  }

  SpareCpu cpu_;
  std::unique_ptr<OwnCollector> own_;
};

class CpuOfflineUnderLoad : public CpuOffline {
 protected:
  CpuOfflineUnderLoad() : CpuOffline("migration storm") {}
};

TEST_F(CpuOffline, TheKernelsBooksStayExact) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  ExpectBooksExactDuring([this] { ComeAndGo(); });
}

TEST_F(CpuOffline, WithARingOfItsOwnItsRecordsAreReadAllTheSame) {
  SchedOptions options;
  options.programs.cpus_per_ring = 1;
  StartWith(options);
  if (IsSkipped()) return;
  TrackThenExec();
  ExpectBooksExactDuring([this] { ComeAndGo(); });
}

TEST_F(CpuOffline, OneThatComesAfterTheStartIsRecordedLikeTheOthers) {
  cpu_.Take();
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  ExpectBooksExactDuring([this] {
    usleep(100'000);
    cpu_.GiveBack();
    usleep(500'000);
  });
  std::set<int64_t> cpus;
  for (const auto& [key, rows] : rows_.Slices()) {
    for (const auto& row : rows) cpus.insert(row[slice_column::kCpu]);
  }
  EXPECT_TRUE(cpus.contains(1));
}

TEST_F(CpuOfflineUnderLoad, TheKernelsBooksStayExact) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  ExpectBooksExactDuring([this] { ComeAndGo(); });
  EXPECT_EQ(collector_->Counters().waits_lost, 0u);
}

TEST_F(CpuOffline, AtLevelOwnEveryTurnIsARowOrCountedAsLost) {
  StartOwn();
  if (IsSkipped()) return;
  ExpectOwnTurns([this] { ComeAndGo(); });
}

TEST_F(CpuOffline, AtLevelOwnOneThatComesAfterTheStartIsRecordedLikeTheOthers) {
  cpu_.Take();
  StartOwn();
  if (IsSkipped()) return;
  ExpectOwnTurns([this] {
    usleep(100'000);
    cpu_.GiveBack();
    usleep(500'000);
  });
}

TEST_F(CpuOffline, ItsPerfCountersStopAndGoOn) {
  PerfCounters source({.events = "context-switches,cpu-clock"}, KernelPerfCalls());
  if (source.State().level == "none") GTEST_SKIP() << source.State().reason;
  ASSERT_EQ(process_.Exec(), "ready");
  constexpr char kClock[] = "perf.cpu-clock_ns_total";
  constexpr char kSwitches[] = "perf.context-switches_total";
  source.Start();
  double clock_ns = 0, switches = 0, node_ns = 0;
  bool was_silent = false, came_back = false;
  const auto sample = [&] {
    const KeptValues values = SampleOf(source);
    ASSERT_TRUE(values.Has(kClock, "cpu0"));
    EXPECT_GE(values(kClock), node_ns) << "the node's count went back";
    node_ns = values(kClock);
    if (!values.Has(kClock, "cpu1")) {
      was_silent = true;
      return;
    }
    EXPECT_GE(values(kClock, "cpu1"), clock_ns) << "a CPU's count went back";
    EXPECT_GE(values(kSwitches, "cpu1"), switches);
    came_back = was_silent && values(kClock, "cpu1") > clock_ns;
    clock_ns = values(kClock, "cpu1");
    switches = values(kSwitches, "cpu1");
  };
  std::atomic<bool> is_over = false;
  std::thread changer([&] {
    ComeAndGo();
    is_over = true;
  });
  do {
    sample();
    usleep(20'000);
  } while (!is_over);
  changer.join();
  for (int tick = 0; tick < 3; ++tick) sample();
  EXPECT_GT(clock_ns, 0);
  EXPECT_TRUE(was_silent);
  EXPECT_TRUE(came_back);
  EXPECT_EQ(source.State().state, "on");
}

TEST_F(CpuOffline, TheTimesOfTheOthersGoOn) {
  CpuTimes source({});
  source.Start();
  const KeptValues before = SampleOf(source);
  cpu_.Take();
  const KeptValues without = SampleOf(source);
  EXPECT_FALSE(without.Has("cpu.user_ns_total", "cpu1"));
  EXPECT_GE(without("cpu.user_ns_total", "cpu0"), before("cpu.user_ns_total", "cpu0"));
  cpu_.GiveBack();
  EXPECT_GE(SampleOf(source)("cpu.user_ns_total", "cpu1"), before("cpu.user_ns_total", "cpu1"));
}

}  // namespace
}  // namespace stepscope
