// SPDX-License-Identifier: Apache-2.0
// What a recorded program can do to its recorder, on the running kernel: names of any bytes, ids up to the kernel's limit,
// processes that are half gone, threads by the ten thousand. The books stay exact, or a loss row counts what is missing.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <set>
#include <string_view>

#include "sched_live.h"

namespace stepscope {
namespace {

using testing::Contains;
using testing::IsSupersetOf;

void AwaitState(pid_t pid, char state) {
  for (int tries = 0; tries < 30'000; ++tries) {
    if (const auto stat = ReadProcStat(Pid{pid}); stat && stat->state == state) return;
    usleep(1000);
  }
  ADD_FAILURE() << "process " << pid << " did not come to state " << state;
}

std::string Hex(std::string_view bytes) {
  std::string hex;
  for (const char byte : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return hex;
}

TEST_F(SchedLive, ANameOfAnyBytesIsKept) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  const std::vector<std::string> names = {"\xff\xfe\x80 raw",
                                          "two\nlines",
                                          "\x1b[2J\x1b[31m",
                                          "%s%n {} \\",
                                          "",
                                          ") R 1 1 (x",
                                          "\xc3\xa9\xc3\xa9\xc3\xa9",
                                          "NSpid: 77",
                                          "\x01\x7f\t\r",
                                          "Uid: 0 Gid: 0\n",
                                          "fifteen bytes!\xc3\xa9 is cut"};
  for (const std::string& name : names) ASSERT_EQ(process_.Do("name " + Hex(name)), "done");
  ASSERT_TRUE(collector_->Flush().ok());
  std::vector<std::string> kept;
  for (const EntityNote& note : rows_.Notes()) {
    if (note.key.kind == EntityKind::kThread && note.key.c == process_.pid()) kept.push_back(note.name);
  }
  std::vector<std::string> wanted;
  for (const std::string& name : names) wanted.push_back(name.substr(0, 15));  // all that the kernel keeps
  EXPECT_THAT(kept, IsSupersetOf(wanted));
}

TEST_F(SchedLive, AProcessFoundUnderAnOddNameIsReadRight) {
  StartWith({});
  if (IsSkipped()) return;
  ASSERT_EQ(process_.Exec(), "ready");
  for (const std::string name : {"NSpid: 77", "NStgid: 77", ") Z 1 1 (", "\n\n", ""}) {
    ASSERT_EQ(process_.Do("name " + Hex(name)), "done");
    ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
    const auto main_thread = std::find_if(tasks_.threads.rbegin(), tasks_.threads.rend(),
                                          [&](const ThreadFacts& facts) { return facts.key.c == process_.pid(); });
    ASSERT_NE(main_thread, tasks_.threads.rend());
    EXPECT_EQ(main_thread->comm, name);
    EXPECT_EQ(main_thread->inner_tid, process_.pid());
    EXPECT_EQ(main_thread->inner_tgid, process_.pid());
    EXPECT_EQ(collector_->Counters().threads, 6u);
    ASSERT_TRUE(collector_->Untrack(kRun).ok());
  }
}

TEST_F(SchedLive, AChildNobodyWaitsForIsNotFollowed) {
  StartWith({});
  if (IsSkipped()) return;
  ASSERT_EQ(process_.Exec(), "ready");
  std::istringstream zombies(process_.Do("zombie 2"));
  for (pid_t zombie; zombies >> zombie;) AwaitState(zombie, 'Z');
  ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
  EXPECT_EQ(collector_->Counters().processes, 1u);
  EXPECT_EQ(tasks_.parents.size(), 1u);
}

TEST_F(SchedLive, AProcessThatHasEndedWhenItIsTrackedIsLetGo) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();  // keeps the programs attached
  const pid_t zombie = std::stoi(process_.Do("zombie 1"));
  AwaitState(zombie, 'Z');
  ASSERT_TRUE(collector_->Flush().ok());
  ASSERT_TRUE(collector_->Flush().ok());
  ASSERT_EQ(collector_->Counters().processes, 1u);
  tasks_.ended.clear();
  ASSERT_TRUE(collector_->Track(Pid{zombie}, RunId{8}).ok());
  ASSERT_TRUE(collector_->Flush().ok());
  ASSERT_TRUE(collector_->Flush().ok());
  EXPECT_EQ(tasks_.ended.size(), 1u) << "a run whose process is over learns of it";
  EXPECT_EQ(collector_->Counters().processes, 1u);
}

TEST_F(SchedLive, AProcessWhoseMainThreadHasLeftIsFollowedToItsEnd) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();  // keeps the programs attached
  std::optional<RecordedProcess> headless(std::in_place);
  ASSERT_EQ(headless->Exec(), "ready");
  ASSERT_EQ(headless->Do("leave"), "done");
  AwaitState(headless->pid(), 'Z');
  ASSERT_TRUE(collector_->Track(Pid{headless->pid()}, RunId{8}).ok());
  const auto before = RecordedProcess::Books(headless->pid());
  ASSERT_EQ(before.size(), 6u) << "five workers, and the thread that went on";
  before_ns_ = clock_.Node().ns;
  ASSERT_EQ(headless->Do("run 500"), "done");
  const auto after = RecordedProcess::Books(headless->pid());
  ASSERT_TRUE(collector_->Flush().ok());
  ExpectExactBooks(before, after);
  headless.reset();
  ASSERT_TRUE(collector_->Flush().ok());
  ASSERT_TRUE(collector_->Flush().ok());
  EXPECT_EQ(tasks_.ended.size(), 1u);
  EXPECT_EQ(collector_->Counters().processes, 1u);
}

/// Allows the largest ids a 64-bit kernel has, while it lives.
class LargestIds {
 public:
  LargestIds() {
    std::ifstream(kPath) >> before_;
    works_ = Write(STEPSCOPE_MAX_TGID);
  }
  ~LargestIds() { Write(before_); }
  bool works() const { return works_; }

 private:
  static constexpr char kPath[] = "/proc/sys/kernel/pid_max";
  static bool Write(uint32_t value) {
    std::ofstream file(kPath);
    file << value << std::flush;
    return file.good();
  }
  uint32_t before_ = 32768;
  bool works_ = false;
};

TEST_F(SchedLive, IdsUpToTheKernelsLimitAreOrdinary) {
  StartWith({});
  if (IsSkipped()) return;
  const LargestIds ids;
  if (!ids.works()) GTEST_SKIP() << "needs the right to write kernel.pid_max";
  constexpr pid_t kLargest = STEPSCOPE_MAX_TGID - 1;
  RecordedProcess large("mixed", kLargest);
  if (large.pid() < 0) GTEST_SKIP() << "needs CAP_CHECKPOINT_RESTORE, to choose process ids: " << strerror(errno);
  ASSERT_EQ(large.pid(), kLargest);
  ASSERT_TRUE(collector_->Track(Pid{kLargest}, kRun).ok());
  ASSERT_EQ(large.Exec(), "ready");
  const auto before = RecordedProcess::Books(kLargest);
  ASSERT_EQ(before.size(), 6u);
  before_ns_ = clock_.Node().ns;
  ASSERT_EQ(large.Do("run 1000"), "done");
  const auto after = RecordedProcess::Books(kLargest);
  ASSERT_TRUE(collector_->Flush().ok());
  ExpectExactBooks(before, after);
  std::set<int64_t> wakers;
  for (const auto& [tid, books] : before) {
    for (const auto& row : RowsSince(tid)) wakers.insert(row[slice_column::kWaker]);
  }
  EXPECT_THAT(wakers, Contains(kLargest)) << "the main thread opens the gate of the others";
  const pid_t child = std::stoi(large.Do("nap " + std::to_string(kLargest - 1)));
  EXPECT_EQ(child, kLargest - 1);
  ASSERT_TRUE(collector_->Flush().ok());
  EXPECT_EQ(collector_->Counters().processes, 2u);
}

/// The machine's own node time, under a wall clock that is set an hour ahead and back all the time.
class SteppingClock final : public Clock {
 public:
  NodeTime Node() const override { return machine_.Node(); }
  WallTime Wall() const override {
    is_ahead_ = !is_ahead_;
    return {machine_.Wall().ns + (is_ahead_ ? 3600 * kNsPerSecond : 0)};
  }

 private:
  SystemClock machine_;
  mutable std::atomic<bool> is_ahead_ = false;
};

TEST_F(SchedLive, AStepOfTheWallClockMovesNoRow) {
  SteppingClock stepping;
  collector_ = std::make_unique<SchedCollector>(SchedOptions{}, &rows_, &tasks_, &stepping);
  if (const absl::Status status = collector_->Start(); !status.ok()) GTEST_SKIP() << "needs CAP_BPF: " << status;
  const int64_t begin_ns = clock_.Node().ns;
  TrackThenExec();
  RunAndCompare(2000);
  for (const auto& [key, rows] : rows_.Slices()) {
    for (const auto& row : rows) {
      EXPECT_GE(row[slice_column::kOn] + row[slice_column::kDur], begin_ns);
      EXPECT_LE(row[slice_column::kOn] + row[slice_column::kDur], clock_.Node().ns);
    }
  }
  collector_.reset();  // before its clock
}

class ThreadFlood : public SchedLive {
 protected:
  static constexpr uint64_t kMakers = 2;
  ThreadFlood() : SchedLive("thread flood") {}
  /// Of each maker: some seconds of ten thousand a second together, where it is full.
  static uint64_t ThreadsOfEach() { return IsFull() ? 25'000 : 2'500; }

  /// Follows the process and reads where everything stands.
  void Begin() {
    TrackThenExec();
    before_ = ReadBefore();
    ASSERT_TRUE(collector_->Flush().ok());
    rows_before_ = rows_.SliceCount();
    const absl::StatusOr<SchedBooks> books = collector_->Books(kRun);
    ASSERT_TRUE(books.ok());
    at_start_ = *books;
  }
  void Flood() {
    const int64_t begin_ns = clock_.Node().ns;
    ASSERT_EQ(process_.Do("run " + std::to_string(ThreadsOfEach())), "done");
    const int64_t threads = static_cast<int64_t>(kMakers * ThreadsOfEach());
    RecordProperty("threads_per_second", std::to_string(threads * kNsPerSecond / (clock_.Node().ns - begin_ns)));
  }
  /// Rows and losses since Begin are the kernel's switches, and the table holds what is alive. `after`: the kernel's books now.
  void ExpectBalance(const std::map<int32_t, KernelBooks>& after) {
    ASSERT_TRUE(collector_->Flush().ok());
    ASSERT_TRUE(collector_->Flush().ok());
    const absl::StatusOr<SchedBooks> books = collector_->Books(kRun);
    ASSERT_TRUE(books.ok());
    EXPECT_EQ(books->closed_threads - at_start_.closed_threads, kMakers * ThreadsOfEach());
    EXPECT_EQ(rows_.Lost(TableId::kSchedSlice), books->slices_lost);
    EXPECT_EQ(rows_.Lost(TableId::kSchedWait), books->waits_lost);
    EXPECT_EQ(rows_.Lost(TableId{}), books->events_lost);
    EXPECT_EQ(rows_.SliceCount() - rows_before_ + books->slices_lost - at_start_.slices_lost,
              Switches(after) - Switches(before_) + books->closed_switches - at_start_.closed_switches);
    EXPECT_EQ(collector_->Counters().unplaced, 0u);
    EXPECT_EQ(collector_->Counters().processes, 1u);
    EXPECT_EQ(collector_->Counters().threads, 1 + kMakers);
  }

  std::map<int32_t, KernelBooks> before_;
  uint64_t rows_before_ = 0;
  SchedBooks at_start_;
};

TEST_F(ThreadFlood, IsRecordedExactlyAndForgotten) {
  StartWith({});
  if (IsSkipped()) return;
  Begin();
  if (HasFatalFailure()) return;
  Flood();
  const auto after = RecordedProcess::Books(process_.pid());
  ExpectBalance(after);
  if (IsFull()) return;  // a ring holds what the few thousand make, not what the many do if nobody reads it for a second
  ExpectExactBooks(before_, after);
  EXPECT_EQ(rows_.LostSlices(), 0u);
}

TEST_F(ThreadFlood, ThroughATinyRingEveryLossIsCountedAndAllOfItIsForgotten) {
  SchedOptions options;
  options.programs.ring_bytes = 4096;
  StartWith(options);
  if (IsSkipped()) return;
  Begin();
  if (HasFatalFailure()) return;
  rows_.Hold();  // a reader that falls behind
  Flood();
  rows_.Release();
  const auto after = RecordedProcess::Books(process_.pid());
  ExpectBalance(after);
  EXPECT_GT(collector_->Books(kRun)->events_lost, 0u);
}

}  // namespace
}  // namespace stepscope
