// SPDX-License-Identifier: Apache-2.0
// The id of a followed process goes to somebody else when it has ended: whose rows are whose then, on the running kernel.
#include <gmock/gmock.h>
#include <sys/wait.h>

#include <optional>
#include <thread>

#include "fork_as.h"
#include "sched_live.h"

namespace stepscope {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Key;
using testing::Not;

constexpr RunId kOther{8};
constexpr RunId kThird{9};

ProcessKey KeyOf(pid_t pid) {
  const auto stat = ReadProcStat(Pid{pid});
  return {Pid{pid}, stat ? stat->start_ticks : -1};
}

EntityKey MainThreadOf(const ProcessKey& process) {
  return {EntityKind::kThread, process.pid.value, process.start_ticks, process.pid.value, {}};
}

class PidReuse : public SchedLive {
 protected:
  void SetUp() override {
    const pid_t once = fork();
    if (once == 0) _exit(0);
    waitpid(once, nullptr, 0);
    const pid_t again = ForkAs(once);
    if (again == 0) _exit(0);
    if (again < 0) GTEST_SKIP() << "needs CAP_CHECKPOINT_RESTORE, to choose process ids: " << strerror(errno);
    waitpid(again, nullptr, 0);
  }
  void Start(uint32_t ring_bytes = SchedProgramOptions().ring_bytes) {
    SchedOptions options;
    options.programs.ring_bytes = ring_bytes;
    StartWith(options);
  }
  /// A process that is followed as `run` and has rows.
  void Follow(std::optional<RecordedProcess>& process, RunId run) {
    process.emplace();
    ASSERT_TRUE(collector_->Track(Pid{process->pid()}, run).ok());
    ASSERT_EQ(process->Exec(), "ready");
    ASSERT_EQ(process->Do("run 50"), "done");
    usleep(50'000);  // some clock ticks, by which procfs tells one owner of an id from the next
  }
  /// From here on the collector stands still in a delivery; until Release it notices nothing.
  void HoldCollector(RecordedProcess& busy) {
    rows_.Hold();
    ASSERT_EQ(busy.Do("run 10"), "done");
    rows_.AwaitHeld();
  }
  void FlushTwice() {
    ASSERT_TRUE(collector_->Flush().ok());
    ASSERT_TRUE(collector_->Flush().ok());  // an end is believed one drain later
  }
  /// `process` is followed as `run`, exactly, and in no other.
  void ExpectExactly(RecordedProcess& process, RunId run) {
    const auto before = RecordedProcess::Books(process.pid());
    ASSERT_EQ(before.size(), 6u);
    before_ns_ = clock_.Node().ns;
    ASSERT_EQ(process.Do("run 200"), "done");
    const auto after = RecordedProcess::Books(process.pid());
    ASSERT_TRUE(collector_->Flush().ok());
    ExpectExactBooks(before, after);
    const ProcessKey key = KeyOf(process.pid());
    for (const auto& [tid, books] : before) {
      EntityKey thread = MainThreadOf(key);
      thread.c = tid;
      EXPECT_THAT(rows_.RunsOf(thread), ElementsAre(run)) << tid;
    }
  }
};

TEST_F(PidReuse, AStrangerUnderTheIdOfAnEndedProcessIsNotRecordedUntilItIsFollowedItself) {
  Start();
  if (IsSkipped()) return;
  TrackThenExec();  // keeps the programs attached
  std::optional<RecordedProcess> first;
  Follow(first, kOther);
  const ProcessKey key = KeyOf(first->pid());
  first.reset();
  FlushTwice();
  EXPECT_THAT(tasks_.ended, Contains(key));
  EXPECT_THAT(rows_.RunsOf(MainThreadOf(key)), ElementsAre(kOther));
  const size_t rows = rows_.SlicesOf(key.pid.value).size();

  RecordedProcess stranger("mixed", key.pid.value);
  ASSERT_EQ(stranger.pid(), key.pid.value);
  ASSERT_EQ(stranger.Exec(), "ready");
  ASSERT_EQ(stranger.Do("run 50"), "done");
  FlushTwice();
  EXPECT_EQ(rows_.SlicesOf(key.pid.value).size(), rows);
  EXPECT_EQ(collector_->Counters().unplaced, 0u);
  EXPECT_THAT(tasks_.parents, Not(Contains(Key(KeyOf(stranger.pid())))));

  ASSERT_TRUE(collector_->Track(Pid{stranger.pid()}, kThird).ok());
  ExpectExactly(stranger, kThird);
}

TEST_F(PidReuse, AStrangerThatTookTheIdWhileNothingWasFollowedIsNotRecorded) {
  Start();
  if (IsSkipped()) return;
  std::optional<RecordedProcess> first;
  Follow(first, kOther);
  const ProcessKey key = KeyOf(first->pid());
  ASSERT_TRUE(collector_->Untrack(kOther).ok());
  first.reset();
  RecordedProcess stranger("mixed", key.pid.value);
  ASSERT_EQ(stranger.pid(), key.pid.value);
  ASSERT_EQ(stranger.Exec(), "ready");
  TrackThenExec();
  const size_t rows = rows_.SlicesOf(key.pid.value).size();
  ASSERT_EQ(stranger.Do("run 50"), "done");
  ASSERT_TRUE(collector_->Flush().ok());
  EXPECT_EQ(rows_.SlicesOf(key.pid.value).size(), rows);
  EXPECT_EQ(collector_->Counters().unplaced, 0u);
}

TEST_F(PidReuse, AProcessIsFollowedAlthoughTheEndOfTheEarlierOwnerWasNotNoticed) {
  Start();
  if (IsSkipped()) return;
  TrackThenExec();
  std::optional<RecordedProcess> first;
  Follow(first, kOther);
  const ProcessKey key = KeyOf(first->pid());
  HoldCollector(process_);
  first.reset();
  RecordedProcess second("mixed", key.pid.value);
  ASSERT_EQ(second.pid(), key.pid.value);
  ASSERT_EQ(second.Exec(), "ready");
  absl::Status tracked;
  std::thread track([&] { tracked = collector_->Track(Pid{second.pid()}, kThird); });
  usleep(100'000);
  rows_.Release();
  track.join();
  ASSERT_TRUE(tracked.ok()) << tracked;
  EXPECT_THAT(tasks_.ended, Contains(key));
  ExpectExactly(second, kThird);
  EXPECT_THAT(rows_.RunsOf(MainThreadOf(key)), ElementsAre(kOther));
}

TEST_F(PidReuse, ARunThatEndsLeavesTheNextOwnerOfItsProcessIdAlone) {
  Start();
  if (IsSkipped()) return;
  TrackThenExec();
  std::optional<RecordedProcess> first;
  Follow(first, kOther);
  const pid_t pid = first->pid();
  HoldCollector(process_);
  first.reset();
  ASSERT_EQ(process_.Do("nap " + std::to_string(pid)), std::to_string(pid));
  std::thread untrack([&] { EXPECT_TRUE(collector_->Untrack(kOther).ok()); });
  usleep(100'000);
  rows_.Release();
  untrack.join();
  ASSERT_TRUE(collector_->Flush().ok());
  const EntityKey thread = MainThreadOf(KeyOf(pid));
  const size_t rows = rows_.Slices()[thread].size();
  const int64_t deadline_ns = clock_.Node().ns + 30 * kNsPerSecond;
  while (rows_.Slices()[thread].size() < rows + 10 && clock_.Node().ns < deadline_ns) ASSERT_TRUE(collector_->Flush().ok());
  EXPECT_GE(rows_.Slices()[thread].size(), rows + 10) << "the run that goes on lost sight of its process";
  EXPECT_THAT(rows_.RunsOf(thread), ElementsAre(kRun));
}

TEST_F(PidReuse, WhenTheEndWasLostTheNextOwnerAndItsChildrenAreNotTakenForTheProcess) {
  Start(/*ring_bytes=*/4096);
  if (IsSkipped()) return;
  TrackThenExec();
  std::optional<RecordedProcess> first;
  Follow(first, kRun);
  const ProcessKey key = KeyOf(first->pid());
  HoldCollector(process_);
  ASSERT_EQ(process_.Do("run 200"), "done");  // fills the ring
  first.reset();
  RecordedProcess stranger("mixed", key.pid.value);
  ASSERT_EQ(stranger.pid(), key.pid.value);
  ASSERT_EQ(stranger.Exec(), "ready");
  const pid_t child = std::stoi(stranger.Do("spawn 1"));
  rows_.Release();
  FlushTwice();
  ASSERT_GT(collector_->Books(kRun)->events_lost, 0u);
  EXPECT_THAT(tasks_.ended, Contains(key));
  EXPECT_THAT(tasks_.parents, Not(Contains(Key(KeyOf(stranger.pid())))));
  EXPECT_THAT(tasks_.parents, Not(Contains(Key(KeyOf(child)))));
  EXPECT_EQ(collector_->Counters().processes, 1u);
  EXPECT_EQ(collector_->Counters().threads, 6u);
}

// The kernel side marks children by their parent; one whose announcement found no room is marked all the same.
TEST_F(PidReuse, NoIdStaysMarkedForALaterRunBecauseItsAnnouncementWasLost) {
  Start(/*ring_bytes=*/4096);
  if (IsSkipped()) return;
  std::optional<RecordedProcess> parent;
  Follow(parent, kOther);
  HoldCollector(*parent);
  ASSERT_EQ(parent->Do("run 200"), "done");  // fills the ring
  const pid_t unheard = std::stoi(parent->Do("zombie 1"));
  std::thread untrack([&] { EXPECT_TRUE(collector_->Untrack(kOther).ok()); });
  usleep(100'000);
  rows_.Release();
  untrack.join();
  ASSERT_THAT(tasks_.parents, Not(Contains(Key(KeyOf(unheard))))) << "it was announced: nothing is shown here";
  parent.reset();
  RecordedProcess stranger("mixed", unheard);
  ASSERT_EQ(stranger.pid(), unheard);
  ASSERT_EQ(stranger.Exec(), "ready");

  // Runs are marked by one of 254 numbers, in turn; all of them come by.
  TrackThenExec();
  RecordedProcess passing;
  for (uint32_t run = 0; run < 254; ++run) {
    ASSERT_TRUE(collector_->Track(Pid{passing.pid()}, RunId{1000 + run}).ok());
    ASSERT_EQ(stranger.Do("run 1"), "done");
    ASSERT_TRUE(collector_->Untrack(RunId{1000 + run}).ok());
  }
  EXPECT_TRUE(rows_.SlicesOf(unheard).empty());
  EXPECT_EQ(collector_->Counters().unplaced, 0u);
}

}  // namespace
}  // namespace stepscope
