// SPDX-License-Identifier: Apache-2.0
// The kernel's books against ours, on the running kernel: for threads blocked at both readings, rows equal switches and the
// sums of exec and run_delay equal schedstat's, to the nanosecond. Needs CAP_BPF and CAP_PERFMON; skipped with the reason.
#include "sched_live.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>

namespace stepscope {
namespace {

constexpr int64_t kNrClockNanosleep = 230;  // x86_64
constexpr int64_t kNrFutex = 202;

TEST_F(SchedLive, EveryTurnOfAThreadIsOneRowAndTheSumsAreTheKernels) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  RunAndCompare(5000);
}

TEST_F(SchedLive, ATreeThatAlreadyRunsIsFollowed) {
  StartWith({});
  if (IsSkipped()) return;
  ASSERT_EQ(process_.Exec(), "ready");
  std::istringstream spawned(process_.Do("spawn 2"));
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
  EXPECT_EQ(tasks_.parents.size(), 3u);
  EXPECT_EQ(tasks_.threads.size(), 8u);
  for (int32_t child; spawned >> child;) {
    int64_t start = ProcScan("/proc").Stat(child)->start_ticks;
    EXPECT_EQ((tasks_.parents[{{child}, start}].pid), (Pid{process_.pid()}));
  }
  RunAndCompare(2000);
}

TEST_F(SchedLive, SeveralRingsKeepEachThreadInOrder) {
  SchedOptions options;
  options.programs.cpus_per_ring = 1;
  StartWith(options);
  if (IsSkipped()) return;
  TrackThenExec();
  RunAndCompare(5000);
}

TEST_F(SchedLive, TheProgramForKernelsWithoutPrevStateKeepsTheSameBooks) {
  SchedOptions options;
  options.programs.use_task_state = true;
  StartWith(options);
  if (IsSkipped()) return;
  TrackThenExec();
  RunAndCompare(2000);
}

TEST_F(SchedLive, OverAJobWithAForkStormRowsEqualSwitches) {
  StartWith({});
  if (IsSkipped()) return;
  ASSERT_EQ(process_.Exec(), "ready");
  auto before = ReadBefore();  // every thread is blocked now, so nothing happens until the command
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
  constexpr int kForks = 100;
  ASSERT_EQ(process_.Do("fork " + std::to_string(kForks)), "done");
  auto after = RecordedProcess::Books(process_.pid());
  ASSERT_TRUE(collector_->Flush().ok());
  absl::StatusOr<SchedBooks> books = collector_->Books(kRun);
  ASSERT_TRUE(books.ok());
  EXPECT_EQ(books->closed_threads, 2u * kForks);
  EXPECT_EQ(books->slices_lost + books->events_lost, 0u);
  EXPECT_EQ(tasks_.SwitchesOfEnded(), books->closed_switches);
  EXPECT_EQ(rows_.SliceCount(), Switches(after) - Switches(before) + books->closed_switches);
  EXPECT_EQ(books->slices, rows_.SliceCount());
  EXPECT_EQ(collector_->Counters().unplaced, 0u);
}

TEST_F(SchedLive, ATinyRingLosesRowsAndStillBalances) {
  SchedOptions options;
  options.programs.ring_bytes = 4096;
  StartWith(options);
  if (IsSkipped()) return;
  TrackThenExec();
  auto before = ReadBefore();
  ASSERT_TRUE(collector_->Flush().ok());
  uint64_t rows_before = rows_.SliceCount();
  uint64_t lost_before = rows_.LostSlices();
  rows_.Hold();
  ASSERT_EQ(process_.Do("run 1000"), "done");
  auto after = RecordedProcess::Books(process_.pid());
  rows_.Release();
  ASSERT_TRUE(collector_->Flush().ok());
  uint64_t lost = rows_.LostSlices() - lost_before;
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(rows_.SliceCount() - rows_before + lost, Switches(after) - Switches(before));
  EXPECT_EQ(collector_->Counters().slices_lost, rows_.LostSlices());
  // Holes in seq are the same count, except behind a thread's last row.
  uint64_t holes = 0;
  for (const auto& [tid, start] : before) {
    std::vector<KeptRows::Row> rows = RowsSince(tid);
    uint64_t last = rows.empty() ? start.switches : static_cast<uint64_t>(rows.back()[slice_column::kSeq]);
    holes += last - start.switches - rows.size() + (after.at(tid).switches - last);
  }
  EXPECT_EQ(holes, lost);
}

TEST_F(SchedLive, AForkStormThroughATinyRingBalances) {
  SchedOptions options;
  options.programs.ring_bytes = 4096;
  StartWith(options);
  if (IsSkipped()) return;
  ASSERT_EQ(process_.Exec(), "ready");
  auto before = ReadBefore();  // every thread is blocked now, so nothing happens until the command
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
  rows_.Hold();
  ASSERT_EQ(process_.Do("fork 100"), "done");
  auto after = RecordedProcess::Books(process_.pid());
  rows_.Release();
  ASSERT_TRUE(collector_->Flush().ok());
  absl::StatusOr<SchedBooks> books = collector_->Books(kRun);
  ASSERT_TRUE(books.ok());
  EXPECT_GT(books->slices_lost, 0u);
  EXPECT_GT(books->events_lost, 0u);
  EXPECT_EQ(rows_.LostSlices(), books->slices_lost);
  EXPECT_EQ(rows_.SliceCount() + books->slices_lost, Switches(after) - Switches(before) + books->closed_switches);
  // The table forgot the processes whose ends were lost, and works on.
  ASSERT_EQ(process_.Do("run 100"), "done");
  ASSERT_TRUE(collector_->Flush().ok());
  EXPECT_EQ(collector_->Counters().processes, 1u);
  EXPECT_EQ(collector_->Counters().threads, 6u);
}

TEST_F(SchedLive, PartnersAreNamedAsWakersAndTimersAreNot) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  auto before = ReadBefore();
  ASSERT_EQ(process_.Do("run 5000"), "done");
  ASSERT_TRUE(collector_->Flush().ok());
  int64_t woken = 0, unknown = 0, by_thread = 0, slept = 0, by_timer = 0;
  for (const auto& [tid, start] : before) {
    bool was_blocked = true, was_asleep = false;
    for (const auto& row : RowsSince(tid)) {
      auto kind = static_cast<WakerKind>(row[slice_column::kWakerKind]);
      int64_t waker = row[slice_column::kWaker];
      EXPECT_EQ(waker != 0, kind == WakerKind::kTask);
      EXPECT_TRUE(was_blocked || kind == WakerKind::kNone || row[slice_column::kState] & kSliceHealed);
      slept += was_asleep;
      by_timer += was_asleep && kind == WakerKind::kTimer;
      bool was_woken = was_blocked && !was_asleep;
      woken += was_woken;
      unknown += was_woken && kind == WakerKind::kUnknown;
      by_thread += was_woken && before.contains(static_cast<int32_t>(waker));
      was_blocked = static_cast<SliceState>(row[slice_column::kState] & 0xff) == SliceState::kBlocked;
      was_asleep = was_blocked && row[slice_column::kSyscall] == kNrClockNanosleep;
    }
  }
  EXPECT_GT(woken, 10'000);
  EXPECT_LE(unknown, woken / 50);
  EXPECT_GE(by_thread, woken * 95 / 100);
  EXPECT_GE(slept, 25);  // of 50: on an emulated, busy machine a sleep may be over before the thread has left its CPU
  EXPECT_GE(by_timer, slept * 9 / 10);
}

TEST_F(SchedLive, AThreadStuckAndOneSpinningAreSeenAsTheyAre) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  process_.Tell("burn 1000");  // a spinning main thread, and five stuck in a futex
  bool spins = false;
  size_t stuck = 0;
  const int64_t deadline_ns = clock_.Node().ns + 30 * kNsPerSecond;
  while (!(spins && stuck == 5) && clock_.Node().ns < deadline_ns) {
    stuck = 0;
    for (const OpenTurn& turn : collector_->OpenTurns()) {
      EXPECT_EQ(turn.run, kRun);
      EXPECT_LE(turn.since.ns, clock_.Node().ns);
      const bool is_main = turn.thread.c == process_.pid();
      spins = spins || (is_main && turn.doing == OpenTurn::Doing::kRunning && turn.syscall == -1);
      stuck += !is_main && turn.doing == OpenTurn::Doing::kOff && turn.syscall == kNrFutex && turn.since.ns > 0;
    }
  }
  EXPECT_TRUE(spins);
  EXPECT_EQ(stuck, 5u);
  EXPECT_EQ(process_.Answer(), "done");
}

TEST_F(SchedLive, AsHistogramTurnsAreCountedAndNothingElseIsWritten) {
  SchedOptions options;
  options.programs.as_histogram = true;
  StartWith(options);
  if (IsSkipped()) return;
  TrackThenExec();
  const auto before = ReadBefore();
  ASSERT_TRUE(collector_->Flush().ok());
  const double turns_before = rows_.NewestCounters()["sched.turns_total"];
  const double run_before = rows_.NewestCounters()["sched.run_ns_total"];
  ASSERT_EQ(process_.Do("run 2000"), "done");
  const auto after = RecordedProcess::Books(process_.pid());
  ASSERT_TRUE(collector_->Flush().ok());
  std::map<std::string, double> now = rows_.NewestCounters();
  EXPECT_EQ(now["sched.turns_total"] - turns_before, static_cast<double>(Switches(after) - Switches(before)));
  EXPECT_GT(now["sched.waits_total"], 4000);
  EXPECT_GT(now["sched.run_ns_total"], run_before);
  EXPECT_EQ(rows_.SliceCount(), 0u);
  EXPECT_EQ(collector_->Counters().threads, 6u);
}

TEST_F(SchedLive, AChildAnnouncedByTheKernelHasTheStartTimeOfProc) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  std::istringstream spawned(process_.Do("spawn 3"));
  ASSERT_TRUE(collector_->Flush().ok());
  int found = 0;
  for (int32_t child; spawned >> child; ++found) {
    std::optional<ProcStat> stat = ProcScan("/proc").Stat(child);
    ASSERT_TRUE(stat);
    auto it = tasks_.parents.find({{child}, stat->start_ticks});
    ASSERT_NE(it, tasks_.parents.end()) << "kernel and /proc disagree about the start of " << child;
    EXPECT_EQ(it->second.pid, Pid{process_.pid()});
    EXPECT_EQ(it->second.start_ticks, ProcScan("/proc").Stat(process_.pid())->start_ticks);
  }
  EXPECT_EQ(found, 3);
}

TEST_F(SchedLive, ThreadsAreNamedAndExecRenamesThem) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  ASSERT_TRUE(collector_->Flush().ok());
  EXPECT_EQ(tasks_.threads.back().comm, "sched_workload");
  EXPECT_EQ(tasks_.threads.back().inner_tid, tasks_.threads.back().key.c);
  std::vector<std::string> commands;
  for (const EntityNote& note : rows_.Notes()) {
    if (note.key.kind == EntityKind::kProcess) commands.push_back(note.name);
  }
  EXPECT_THAT(commands, testing::Contains("sched_workload mixed"));
}

TEST_F(SchedLive, AnExecByAnotherThreadContinuesUnderTheLeadersId) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  ASSERT_EQ(process_.Do("exec"), "ready");
  auto before = ReadBefore();
  ASSERT_EQ(process_.Do("run 500"), "done");
  auto after = RecordedProcess::Books(process_.pid());
  ASSERT_TRUE(collector_->Flush().ok());
  ExpectExactBooks(before, after);
  EXPECT_EQ(collector_->Counters().threads, 6u);
  EXPECT_EQ(collector_->Counters().processes, 1u);
}

TEST_F(SchedLive, AProcessThatEndsIsReportedOnceAndLetGo) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  ASSERT_EQ(process_.Do("fork 5"), "done");
  ASSERT_TRUE(collector_->Flush().ok());
  ASSERT_TRUE(collector_->Flush().ok());  // an end is believed one drain later
  EXPECT_EQ(tasks_.ended.size(), 5u);
  EXPECT_EQ(tasks_.parents.size(), 6u);
  EXPECT_EQ(collector_->Counters().processes, 1u);
}

TEST_F(SchedLive, WithNothingTrackedItIsIdleAndAProcessTrackedAgainIsExact) {
  StartWith({});
  if (IsSkipped()) return;
  EXPECT_EQ(collector_->State().state, "idle");
  TrackThenExec();
  EXPECT_EQ(collector_->State().state, "on");
  ASSERT_EQ(process_.Do("run 100"), "done");
  ASSERT_TRUE(collector_->Untrack(kRun).ok());
  EXPECT_EQ(collector_->State().state, "idle");
  uint64_t rows = rows_.SliceCount();
  ASSERT_EQ(process_.Do("run 500"), "done");
  ASSERT_TRUE(collector_->Flush().ok());
  EXPECT_EQ(rows_.SliceCount(), rows) << "rows of a run that is not tracked";
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, RunId{8}).ok());
  RunAndCompare(1000);
}

TEST_F(SchedLive, TrackingSaysWhatIsWrong) {
  StartWith({});
  if (IsSkipped()) return;
  EXPECT_EQ(collector_->Track(Pid{1 << 22}, kRun).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(collector_->Track(Pid{getpid()}, kRun).code(), absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
  EXPECT_EQ(collector_->Track(Pid{process_.pid()}, RunId{9}).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
}

TEST(SchedRights, WithoutTypeInformationTheStateSaysWhatToChange) {
  SystemClock clock;
  KeptRows rows;
  SchedOptions options;
  options.programs.btf_path = "/nonexistent/vmlinux";
  SchedCollector collector(options, &rows, nullptr, &clock);
  EXPECT_FALSE(collector.Start().ok());
  CollectorState state = collector.State();
  EXPECT_EQ(state.level, "none");
  EXPECT_EQ(state.state, "unavailable");
  EXPECT_THAT(state.reason, testing::AllOf(testing::HasSubstr("/nonexistent/vmlinux"), testing::HasSubstr("ENOENT")));
  EXPECT_THAT(state.next_step, testing::HasSubstr("CONFIG_DEBUG_INFO_BTF"));
  absl::Status track = collector.Track(Pid{1}, kRun);
  EXPECT_EQ(track.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(track.message()), testing::HasSubstr("ENOENT"));
}

// Prints to stderr what the parent looks for; a death test is the way to give up rights for one check only.
[[noreturn]] void StartWithoutRights() {
  if (getuid() == 0 && setuid(65534) != 0) _exit(3);
  SystemClock clock;
  KeptRows rows;
  SchedCollector collector({}, &rows, nullptr, &clock);
  absl::Status status = collector.Start();
  CollectorState state = collector.State();
  fprintf(stderr, "%s | %s\n", state.reason.c_str(), state.next_step.c_str());
  _exit(status.ok() ? 0 : 2);
}

TEST(SchedRights, WithoutCapabilitiesTheStateNamesThem) {
  EXPECT_EXIT(StartWithoutRights(), testing::ExitedWithCode(2), "EPERM.*\\| .*CAP_BPF and CAP_PERFMON");
}

}  // namespace
}  // namespace stepscope
