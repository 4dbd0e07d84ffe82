// SPDX-License-Identifier: Apache-2.0
// Level `own` on the running kernel: for threads blocked at both readings, rows equal the switches /proc counted, exactly, when
// perf lost nothing; and without perf the sums are the kernel's. Skipped with the reason where perf is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <optional>

#include "daemon/collector/own/own_collector.h"
#include "daemon/collector/own/slice_ladder.h"
#include "kept_rows.h"
#include "recorded_process.h"

namespace stepscope {
namespace {

constexpr RunId kRun{7};

class OwnLive : public testing::Test {
 protected:
  void StartWith(OwnOptions options) {
    const bool wants_perf = options.use_perf;
    collector_ = std::make_unique<OwnCollector>(options, &rows_, &tasks_, &clock_);
    const absl::Status perf = collector_->Start();
    if (wants_perf && !perf.ok()) GTEST_SKIP() << "needs perf_event_open: " << std::string(perf.message());
  }
  std::map<int32_t, KernelBooks> ReadBefore() {
    auto books = RecordedProcess::Books(process_.pid());
    before_ns_ = clock_.Node().ns;
    return books;
  }
  std::vector<KeptRows::Row> RowsSince(int32_t tid) {
    std::vector<KeptRows::Row> rows = rows_.SlicesOf(tid);
    std::erase_if(rows, [&](const auto& row) { return row[slice_column::kOn] + row[slice_column::kDur] < before_ns_; });
    return rows;
  }
  static void ExpectSequential(const std::vector<KeptRows::Row>& rows) {
    int64_t off = 0;
    for (const auto& row : rows) {
      ASSERT_GE(row[slice_column::kDur], 0);
      ASSERT_GE(row[slice_column::kOn] - row[slice_column::kWait], off) << "a wait reaches into the turn before it";
      ASSERT_NE(row[slice_column::kState] & kSliceOwnLevel, 0);
      off = row[slice_column::kOn] + row[slice_column::kDur];
    }
  }
  void RunAndCompare(int rounds) {
    const auto before = ReadBefore();
    ASSERT_EQ(before.size(), 6u);
    // A burst fits the small ring of this level, however late its reader gets a CPU.
    constexpr int kBurst = 100;
    for (int done = 0; done < rounds; done += kBurst) {
      ASSERT_EQ(process_.Do("run " + std::to_string(kBurst)), "done");
      ASSERT_TRUE(collector_->Flush().ok());
    }
    const auto after = RecordedProcess::Books(process_.pid());
    ASSERT_TRUE(collector_->Flush().ok());
    ASSERT_EQ(rows_.LostSlices(), 0u);
    for (const auto& [tid, start] : before) {
      SCOPED_TRACE(testing::Message() << "thread " << tid);
      const std::vector<KeptRows::Row> rows = RowsSince(tid);
      EXPECT_EQ(rows.size(), after.at(tid).switches - start.switches);
      ExpectSequential(rows);
      int64_t running_ns = 0;
      for (const auto& row : rows) running_ns += row[slice_column::kDur];
      EXPECT_GT(running_ns, 0);
    }
    EXPECT_EQ(collector_->State().numbers["unplaced"], "0");
  }
  /// Newest value of a counter of the recorded process.
  int64_t Newest(const std::string& counter) { return static_cast<int64_t>(rows_.NewestCounters()[counter]); }

  SystemClock clock_;
  int64_t before_ns_ = 0;
  KeptRows rows_;
  KeptTasks tasks_;
  RecordedProcess process_;
  std::unique_ptr<OwnCollector> collector_;
};

TEST_F(OwnLive, EveryTurnOfAThreadIsOneRow) {
  StartWith({});
  if (IsSkipped()) return;
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
  ASSERT_EQ(process_.Exec(), "ready");
  RunAndCompare(2000);
}

TEST_F(OwnLive, ATreeThatAlreadyRunsIsFollowed) {
  StartWith({});
  if (IsSkipped()) return;
  ASSERT_EQ(process_.Exec(), "ready");
  std::istringstream spawned(process_.Do("spawn 2"));
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
  EXPECT_EQ(tasks_.parents.size(), 3u);
  EXPECT_EQ(tasks_.threads.size(), 8u);
  RunAndCompare(1000);
}

TEST_F(OwnLive, ProcessesThatLiveForAMomentAreFollowedAndLetGo) {
  StartWith({});
  if (IsSkipped()) return;
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
  ASSERT_EQ(process_.Exec(), "ready");
  constexpr size_t kForks = 50;
  ASSERT_EQ(process_.Do("fork " + std::to_string(kForks)), "done");
  ASSERT_TRUE(collector_->Flush().ok());
  ASSERT_TRUE(collector_->Flush().ok()) << "an ended process is let go one drain later";
  ASSERT_EQ(rows_.LostSlices(), 0u);
  EXPECT_EQ(tasks_.ended.size(), kForks);
  size_t dead = 0;
  for (const auto& [key, rows] : rows_.Slices()) {
    if (key.kind != EntityKind::kThread || key.a == process_.pid()) continue;
    ExpectSequential(rows);
    dead += (rows.back()[slice_column::kState] & 0xFF) == static_cast<int64_t>(SliceState::kDead) ? 1 : 0;
  }
  EXPECT_EQ(dead, 2 * kForks) << "the last turn of each thread is there, with its end";
}

TEST_F(OwnLive, AThreadThatIsNotTheLeaderMayExec) {
  StartWith({});
  if (IsSkipped()) return;
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
  ASSERT_EQ(process_.Exec(), "ready");
  ASSERT_EQ(process_.Do("exec"), "ready");
  RunAndCompare(500);
}

TEST_F(OwnLive, WhatTheRingCannotHoldIsCounted) {
  StartWith({.ring_pages = 1, .drain_period = std::chrono::seconds(10)});
  if (IsSkipped()) return;
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
  ASSERT_EQ(process_.Exec(), "ready");
  rows_.Hold();  // the collector stands still in the middle of a delivery
  ASSERT_EQ(process_.Do("run 20000"), "done");
  rows_.Release();
  ASSERT_TRUE(collector_->Flush().ok());
  ASSERT_EQ(process_.Do("run 100"), "done");  // the kernel tells of a loss with the next record
  ASSERT_TRUE(collector_->Flush().ok());
  EXPECT_GT(rows_.LostSlices(), 0u);
  EXPECT_EQ(std::to_string(rows_.LostSlices()), collector_->State().numbers["records_lost"]);
  for (const auto& [key, rows] : rows_.Slices()) {
    if (key.kind == EntityKind::kThread) ExpectSequential(rows);
  }
}

TEST_F(OwnLive, WithoutPerfTheSumsAreTheKernels) {
  StartWith({.use_perf = false});
  ASSERT_EQ(process_.Exec(), "ready");
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
  ASSERT_EQ(process_.Do("run 500"), "done");
  const auto books = RecordedProcess::Books(process_.pid());
  ASSERT_TRUE(collector_->Flush().ok());
  int64_t running_ns = 0, runnable_ns = 0;
  for (const auto& [tid, book] : books) {
    running_ns += book.exec_ns;
    runnable_ns += book.run_delay_ns;
    EXPECT_TRUE(rows_.SlicesOf(tid).empty());
  }
  EXPECT_EQ(Newest(kRunningCounter), running_ns);
  EXPECT_EQ(Newest(kRunnableCounter), runnable_ns);
}

TEST_F(OwnLive, AfterUntrackNothingMoreIsRecorded) {
  StartWith({});
  if (IsSkipped()) return;
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
  ASSERT_EQ(process_.Exec(), "ready");
  ASSERT_TRUE(collector_->Untrack(kRun).ok());
  const uint64_t rows = rows_.SliceCount();
  ASSERT_EQ(process_.Do("run 100"), "done");
  ASSERT_TRUE(collector_->Flush().ok());
  EXPECT_EQ(rows_.SliceCount(), rows);
  EXPECT_EQ(collector_->State().state, "idle");
}

// A second passes between two looks at /proc, in which an id may change hands.
TEST_F(OwnLive, TheNextOwnerOfAnIdIsNotTakenForTheProcessThatHadIt) {
  StartWith({.use_perf = false, .sweep_period = std::chrono::hours(1)});
  ASSERT_EQ(process_.Exec(), "ready");
  std::optional<RecordedProcess> first(std::in_place);
  ASSERT_EQ(first->Exec(), "ready");
  ASSERT_TRUE(collector_->Track(Pid{first->pid()}, kRun).ok());
  ASSERT_EQ(first->Do("run 100"), "done");
  ASSERT_TRUE(collector_->Flush().ok());
  const int64_t running_ns = Newest(kRunningCounter);
  const ProcessKey key = tasks_.parents.begin()->first;
  usleep(50'000);  // some clock ticks, by which procfs tells one owner of an id from the next
  first.reset();
  RecordedProcess stranger("mixed", key.pid.value);
  if (stranger.pid() < 0) GTEST_SKIP() << "needs CAP_CHECKPOINT_RESTORE, to choose process ids: " << strerror(errno);
  ASSERT_EQ(stranger.Exec(), "ready");
  ASSERT_EQ(stranger.Do("burn 300"), "done");
  ASSERT_TRUE(collector_->Flush().ok());
  ASSERT_TRUE(collector_->Flush().ok());
  EXPECT_LT(Newest(kRunningCounter) - running_ns, 300'000'000);
  EXPECT_THAT(tasks_.ended, testing::ElementsAre(key));
  EXPECT_EQ(collector_->State().numbers["processes"], "0");

  ASSERT_TRUE(collector_->Track(Pid{stranger.pid()}, RunId{8}).ok()) << "it is nobody's";
  EXPECT_EQ(collector_->State().numbers["processes"], "1");
}

TEST_F(OwnLive, ANameOfAnyBytesIsKept) {
  StartWith({});
  if (IsSkipped()) return;
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
  ASSERT_EQ(process_.Exec(), "ready");
  ASSERT_EQ(process_.Do("name fffe800a"), "done");
  ASSERT_EQ(process_.Do("name 1b5b324a"), "done");
  ASSERT_EQ(process_.Do("name"), "done");
  ASSERT_TRUE(collector_->Flush().ok());
  std::vector<std::string> names;
  for (const ThreadFacts& thread : tasks_.threads) names.push_back(thread.comm);
  EXPECT_THAT(names, testing::IsSupersetOf({"\xff\xfe\x80\n", "\x1b[2J", ""}));
}

TEST_F(OwnLive, TheLadderTakesTheNextStepWhenOneIsRefused) {
  LadderOptions options;
  options.sched.programs.btf_path = "/nowhere/vmlinux";
  const auto source = StartBestLevel(options, &rows_, &tasks_, &clock_);
  const CollectorState state = source->State();
  EXPECT_EQ(state.level, "own");
  EXPECT_EQ(state.error, "ENOENT");
  EXPECT_THAT(state.failed_step, testing::HasSubstr("/nowhere/vmlinux"));
  EXPECT_THAT(state.next_step, testing::HasSubstr("CONFIG_DEBUG_INFO_BTF"));
  EXPECT_FALSE(state.works.empty());
  source->Stop();
}

}  // namespace
}  // namespace stepscope
