// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/proc_process.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <map>

#include "base/proc_stat.h"
#include "tests/unit/host/device_trees.h"

namespace stepscope {
namespace {

/// Values by process.
class ByProcess final : public MetricSink {
 public:
  void Add(const MetricValue& value) override { values_[value.process][std::string(value.name)] = value.value; }
  double operator()(ProcessKey process, const std::string& name) const { return values_.at(process).at(name); }
  bool Has(ProcessKey process, const std::string& name) const {
    const auto found = values_.find(process);
    return found != values_.end() && found->second.contains(name);
  }
  size_t processes() const { return values_.size(); }

 private:
  std::map<ProcessKey, std::map<std::string, double>> values_;
};

ByProcess Read(ProcProcess& source, const std::vector<ProcessKey>& processes) {
  ByProcess values;
  source.Sample(processes, &values);
  return values;
}

TEST(ProcProcess, AProcessHasItsCpuTimeMemoryAndIo) {
  const FakeTree tree;
  const ProcessKey process = tree.AddProcess(42, "");
  WriteProcessFiles(tree, process);
  ProcProcess source({tree.root()});
  const ByProcess values = Read(source, {process});
  EXPECT_EQ(values(process, "process.cpu_ns_total"), 10.0 * 1e9 / static_cast<double>(sysconf(_SC_CLK_TCK)));
  EXPECT_EQ(values(process, "process.threads"), 4);
  EXPECT_EQ(values(process, "process.rss_bytes"), 2048 * 1024.0);
  EXPECT_EQ(values(process, "process.main_thread_voluntary_switches_total"), 150);
  EXPECT_EQ(values(process, "process.main_thread_involuntary_switches_total"), 12);
  EXPECT_EQ(values(process, "process.rchar_bytes_total"), 5000);
  EXPECT_EQ(values(process, "process.written_bytes_total"), 8192);
}

TEST(ProcProcess, AProcessThatIsGoneAndOneThatTookItsPidHaveNoValues) {
  const FakeTree tree;
  const ProcessKey alive = tree.AddProcess(42, "");
  WriteProcessFiles(tree, alive);
  const ProcessKey earlier{alive.pid, alive.start_ticks - 1};
  const ProcessKey gone{Pid{43}, 500};
  ProcProcess source({tree.root()});
  const ByProcess values = Read(source, {earlier, gone, alive});
  EXPECT_EQ(values.processes(), 1U);
  EXPECT_TRUE(values.Has(alive, "process.rss_bytes"));
  EXPECT_EQ(source.State().numbers.at("gone"), "2");
}

TEST(ProcProcess, AZombieHasCpuTimeAndNoMemory) {
  const FakeTree tree;
  const ProcessKey process = tree.AddProcess(42, "");
  tree.Write("/proc/42/status", "Name:\tpython\nState:\tZ (zombie)\n");
  ProcProcess source({tree.root()});
  const ByProcess values = Read(source, {process});
  EXPECT_TRUE(values.Has(process, "process.cpu_ns_total"));
  EXPECT_FALSE(values.Has(process, "process.rss_bytes"));
  EXPECT_FALSE(values.Has(process, "process.rchar_bytes_total"));
}

TEST(ProcProcess, TooManyProcessesAreReadInTurnAndStateSaysSo) {
  const FakeTree tree;
  std::vector<ProcessKey> processes;
  for (int32_t pid = 1; pid <= 2100; ++pid) processes.push_back(tree.AddProcess(pid, ""));
  ProcProcess source({tree.root()});
  ByProcess values;
  for (int sample = 0; sample < 3; ++sample) {
    ByProcess one;
    source.Sample(processes, &one);
    EXPECT_EQ(one.processes(), 1000U);
    source.Sample({}, &values);  // nothing tracked is ordinary
  }
  EXPECT_EQ(values.processes(), 0U);
  source.Start();
  for (int sample = 0; sample < 3; ++sample) source.Sample(processes, &values);
  EXPECT_EQ(values.processes(), 2100U);
  EXPECT_EQ(source.State().reason, "2100 processes are tracked and 1000 are read at a time: each has values every 3 samples");
}

TEST(ProcProcess, OwnIoIsReadFromTheRealKernel) {
  const ProcessKey self{Pid{getpid()}, ReadProcStat(Pid{getpid()})->start_ticks};
  ProcProcess source({""});
  const ByProcess values = Read(source, {self});
  EXPECT_GT(values(self, "process.rss_bytes"), 1e6);
  EXPECT_TRUE(values.Has(self, "process.rchar_bytes_total"));
  EXPECT_EQ(source.State().reason, "");
}

/// 0 when process 1, seen by a user without rights over it, has CPU time but no I/O, and the state says why.
[[noreturn]] void SampleProcessOneAsNobody() {
  constexpr uid_t kNobody = 65534;
  if (geteuid() == 0 && setresuid(kNobody, kNobody, kNobody) != 0) _exit(2);
  const ProcessKey init{Pid{1}, ReadProcStat(Pid{1})->start_ticks};
  ProcProcess source({""});
  const ByProcess values = Read(source, {init});
  const CollectorState state = source.State();
  const bool is_right = values.Has(init, "process.cpu_ns_total") && !values.Has(init, "process.rchar_bytes_total") &&
                        state.level == "own" && state.reason == "/proc/PID/io of 1 of 1 processes: Permission denied" &&
                        state.next_step.find("CAP_SYS_PTRACE") != std::string::npos;
  _exit(is_right ? 0 : 1);
}

TEST(ProcProcessDeathTest, WithoutTheRightToTraceIoIsAbsentAndStateSaysWhatToChange) {
  EXPECT_EXIT(SampleProcessOneAsNobody(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace stepscope
