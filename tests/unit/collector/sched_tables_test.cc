// SPDX-License-Identifier: Apache-2.0
// Record layout, record-to-row mapping, the task table and procfs parsing: everything of the collector that needs no kernel.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "contract/sched_record.h"
#include "daemon/collector/occupant_names.h"
#include "daemon/collector/sched_proc_scan.h"
#include "daemon/collector/sched_rows.h"
#include "daemon/collector/task_table.h"
#include "tests/unit/host/fake_tree.h"

namespace stepscope {
namespace {

// The worked example of docs/formats/sched_record.md.
constexpr unsigned char kGolden[64] = {0x01, 0x02, 0x03, 0x00, 0x10, 0x27, 0x00, 0x00, 0x00, 0x94, 0x35, 0x77, 0x00,
                                       0x00, 0x00, 0x00, 0x20, 0xe2, 0x38, 0x77, 0x00, 0x00, 0x00, 0x00, 0x40, 0x9c,
                                       0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 0xf0, 0xff, 0xf7, 0xff, 0x7f, 0x00,
                                       0x00, 0x39, 0x30, 0x80, 0x08, 0x3a, 0x30, 0x40, 0x00, 0x18, 0xfc, 0xff, 0xff,
                                       0x30, 0x75, 0x00, 0x00, 0xf4, 0x01, 0x00, 0x00, 0xca, 0x00, 0x2c, 0x01};

stepscope_slice GoldenSlice() {
  stepscope_slice slice{};
  slice.type = STEPSCOPE_SLICE;
  slice.maj_faults = 2;
  slice.cpu = 3;
  slice.seq = 10'000;
  slice.on_ns = 2'000'000'000;
  slice.off_ns = 2'000'216'608;
  slice.wait_ns = 40'000;
  slice.arg0 = 0x7ffff7fff080;
  slice.tid = 12'345;
  slice.state = STEPSCOPE_STATE_RUNNABLE;
  slice.flags = STEPSCOPE_SLICE_FIRST;
  slice.waker = 12'346;
  slice.waker_kind = STEPSCOPE_WAKER_TASK;
  slice.exec_over_ns = -1000;
  slice.rq_wait_ns = 30'000;
  slice.stolen_ns = 500;
  slice.syscall = 202;
  slice.min_faults = 300;
  return slice;
}

TEST(SchedRecord, TheWorkedExampleHasTheseBytes) {
  stepscope_slice slice = GoldenSlice();
  unsigned char bytes[sizeof(slice)];
  std::memcpy(bytes, &slice, sizeof(slice));
  EXPECT_THAT(bytes, testing::ElementsAreArray(kGolden));
}

TEST(SchedRecord, StatesAndWakersHaveTheValuesOfTheTable) {
  EXPECT_EQ(STEPSCOPE_STATE_BLOCKED, static_cast<int>(SliceState::kBlocked));
  EXPECT_EQ(STEPSCOPE_STATE_BLOCKED_IO, static_cast<int>(SliceState::kBlockedIo));
  EXPECT_EQ(STEPSCOPE_STATE_RUNNABLE, static_cast<int>(SliceState::kRunnable));
  EXPECT_EQ(STEPSCOPE_STATE_PREEMPTED, static_cast<int>(SliceState::kPreempted));
  EXPECT_EQ(STEPSCOPE_STATE_STOPPED, static_cast<int>(SliceState::kStopped));
  EXPECT_EQ(STEPSCOPE_STATE_TRACED, static_cast<int>(SliceState::kTraced));
  EXPECT_EQ(STEPSCOPE_STATE_DEAD, static_cast<int>(SliceState::kDead));
  EXPECT_EQ(STEPSCOPE_STATE_THROTTLED, static_cast<int>(SliceState::kThrottled));
  EXPECT_EQ(STEPSCOPE_WAKER_UNKNOWN, static_cast<int>(WakerKind::kUnknown));
  EXPECT_EQ(STEPSCOPE_WAKER_TASK, static_cast<int>(WakerKind::kTask));
  EXPECT_EQ(STEPSCOPE_WAKER_TIMER, static_cast<int>(WakerKind::kTimer));
  EXPECT_EQ(STEPSCOPE_WAKER_DISK, static_cast<int>(WakerKind::kDisk));
  EXPECT_EQ(STEPSCOPE_WAKER_NET, static_cast<int>(WakerKind::kNet));
  EXPECT_EQ(STEPSCOPE_WAKER_LOCAL_NET, static_cast<int>(WakerKind::kLocalNet));
  EXPECT_EQ(STEPSCOPE_WAKER_IRQ, static_cast<int>(WakerKind::kIrq));
  EXPECT_EQ(STEPSCOPE_WAKER_NONE, static_cast<int>(WakerKind::kNone));
}

TEST(SchedRows, ASliceBecomesARowInTheLaneOfItsThread) {
  TaskTable tasks;
  TrackedThread& thread = tasks.AddThread(tasks.AddProcess({{12'000}, 99}, RunId{5}), 12'345);
  SchedRows rows;
  rows.AddSlice(thread, GoldenSlice());
  rows.AddSlice(thread, GoldenSlice());
  std::vector<Batch> batches = rows.Take();
  ASSERT_EQ(batches.size(), 1u);
  const Batch& batch = batches[0];
  EXPECT_EQ(batch.table, TableId::kSchedSlice);
  EXPECT_EQ(batch.run, RunId{5});
  ASSERT_EQ(batch.rows(), 2u);
  EXPECT_THAT(batch.entities, testing::ElementsAre(EntityKey{EntityKind::kThread, 12'000, 99, 12'345, {}}));
  std::vector<int64_t> row;
  for (const auto& column : batch.columns) row.push_back(column[0]);
  EXPECT_THAT(row, testing::ElementsAre(2'000'000'000, 216'608, 40'000, 3, 12'346, 1, 202, 0x7ffff7fff080, 0x202, 10'000, 215'608,
                                        30'000, 500, 300, 2));
  rows.AddSlice(thread, GoldenSlice());
  EXPECT_EQ(rows.Take()[0].entities.size(), 1u) << "a new batch has its own dictionary";
  EXPECT_TRUE(rows.Take().empty());
}

TEST(SchedRows, ALossSaysWhereHowManyAndWhen) {
  SchedRows rows;
  rows.AddLoss({RunId{5}, 1, NodeTime{100}, NodeTime{400}, TableId::kSchedSlice, 8, 512});
  Batch batch = rows.Take().at(0);
  EXPECT_EQ(batch.table, TableId::kLoss);
  EXPECT_EQ(batch.entities.at(0), (EntityKey{EntityKind::kCpu, 1, 0, 0, {}}));
  std::vector<int64_t> row;
  for (const auto& column : batch.columns) row.push_back(column[0]);
  EXPECT_THAT(row, testing::ElementsAre(100, 300, static_cast<int64_t>(LossStage::kKernel), 0,
                                        static_cast<int64_t>(LossReason::kKernelRingFull), 4, 8, 512));
}

TEST(TaskTable, TheLastThreadEndsTheProcess) {
  TaskTable tasks;
  TrackedProcess& process = tasks.AddProcess({{10}, 1}, RunId{5});
  tasks.AddThread(process, 10);
  tasks.AddThread(process, 11);
  tasks.AddThread(process, 11);
  EXPECT_EQ(process.threads, 2u);
  EXPECT_EQ(tasks.RemoveThread(10), nullptr) << "threads may outlive the leader";
  EXPECT_EQ(tasks.RemoveThread(11), &process);
  EXPECT_EQ(tasks.RemoveThread(11), nullptr);
  tasks.RemoveProcess(10);
  EXPECT_EQ(tasks.Process(10), nullptr);
}

TEST(ProcScan, AGoneProcessIsAnEmptyAnswer) {
  ProcScan proc("/nonexistent");
  EXPECT_FALSE(proc.Stat(1));
  EXPECT_TRUE(proc.Threads(1).empty());
  EXPECT_TRUE(proc.All().empty());
  EXPECT_FALSE(proc.Comm(1, 1));
  EXPECT_EQ(proc.Inner(1, 1).tid, 0);
}

TEST(ProcScan, AThreadsNameIsNotReadAsAnotherLineOfItsStatus) {
  FakeTree tree;
  tree.Write("/9/task/9/status", "Name:\tNSpid: 77 NStgid: 88\nUid:\t0\t0\t0\t0\nNStgid:\t9\t5\nNSpid:\t9\t4\n");
  tree.Write("/9/task/9/comm", "\n");
  const ProcScan proc(tree.root());
  EXPECT_EQ(proc.Inner(9, 9).tid, 4);
  EXPECT_EQ(proc.Inner(9, 9).tgid, 5);
  EXPECT_EQ(proc.Comm(9, 9), "") << "no name is a name too";
}

TEST(ProcScan, AMainThreadThatHasEndedIsNotAmongThoseThatRun) {
  FakeTree tree;
  const auto add = [&](int tid, char state) {
    tree.Write(fmt::format("/9/task/{}/stat", tid),
               fmt::format("{} (x) {} 1 9 9 0 -1 0 0 0 0 0 7 3 0 0 20 0 2 0 500 0 0\n", tid, state));
  };
  add(9, 'S');
  add(10, 'S');
  const ProcScan proc(tree.root());
  EXPECT_THAT(proc.Threads(9), testing::UnorderedElementsAre(9, 10));
  add(9, 'Z');
  EXPECT_THAT(proc.Threads(9), testing::ElementsAre(10));
}

TEST(OccupantNames, AThreadWithoutANameIsNotGone) {
  FakeTree tree;
  tree.Write("/9/task/9/stat", "9 () S 1 9 9 0 -1 0 0 0 0 0 7 3 0 0 20 0 1 0 500 0 0\n");
  tree.Write("/9/status", fmt::format("Name:\t\nUid:\t{0}\t{0}\t{0}\t{0}\n", getuid()));
  const ProcScan proc(tree.root());
  TaskTable tasks;
  OccupantNames names(&proc, &tasks);
  const Occupant occupant = names.Resolve(9, 9, RunId{5}, getuid(), NodeTime{1});
  EXPECT_EQ(occupant.klass, OccupantClass::kSameUser);
  EXPECT_EQ(occupant.name, "");
  EXPECT_EQ(names.Resolve(8, 8, RunId{5}, getuid(), NodeTime{1}).klass, OccupantClass::kGone);
}

TEST(OccupantNames, AnIdThatIsAnothersNowIsLookedUpAnew) {
  FakeTree tree;
  const auto write = [&](std::string_view name, int64_t start_ticks, uint32_t uid) {
    tree.Write("/9/task/9/stat", fmt::format("9 ({}) S 1 9 9 0 -1 0 0 0 0 0 7 3 0 0 20 0 1 0 {} 0 0\n", name, start_ticks));
    tree.Write("/9/status", fmt::format("Name:\tx\nUid:\t{0}\t{0}\t{0}\t{0}\n", uid));
  };
  const ProcScan proc(tree.root());
  TaskTable tasks;
  OccupantNames names(&proc, &tasks);
  const auto name_at = [&](int64_t second) { return names.Resolve(9, 9, RunId{5}, 1000, NodeTime{second * kNsPerSecond}).name; };
  write("one", 500, 1000);
  EXPECT_EQ(name_at(1), "one");
  write("renamed", 500, 1000);
  EXPECT_EQ(name_at(2), "one") << "trusted for ten seconds";
  EXPECT_EQ(name_at(12), "renamed");
  write("stranger", 900, 1001);
  EXPECT_EQ(name_at(23), "") << "another process by now, of another user";
}

TEST(ProcScan, ItFindsItself) {
  ProcScan proc("/proc");
  std::optional<ProcStat> self = proc.Stat(getpid());
  ASSERT_TRUE(self);
  EXPECT_EQ(self->pid, Pid{getpid()});
  EXPECT_EQ(self->parent, Pid{getppid()});
  EXPECT_THAT(proc.Threads(getpid()), testing::Contains(getpid()));
  EXPECT_GT(proc.Inner(getpid(), getpid()).tid, 0);
}

}  // namespace
}  // namespace stepscope
