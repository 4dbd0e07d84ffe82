// SPDX-License-Identifier: Apache-2.0
// The kernel's books and who kept whom waiting, one scenario of sched_workload at a time, on the running kernel. Shares that only
// an idle machine can promise are checked where STEPSCOPE_FULL is 1; exact sums always are.
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include <set>

#include "sched_live.h"

namespace stepscope {
namespace {

constexpr int64_t kNrPoll = 7;  // x86_64

// A process nobody records that spins on CPU 0.
class Stranger {
 public:
  Stranger() {
    pid_ = fork();
    if (pid_ != 0) return;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(0, &one);
    sched_setaffinity(0, sizeof(one), &one);
    for (;;) {
    }
  }
  ~Stranger() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

struct WaitShares {
  int64_t told_ns = 0;
  int64_t unknown_ns = 0;
  std::map<int64_t, int64_t> by_thread;
  int64_t Of(std::initializer_list<int64_t> tids) const {
    int64_t sum = 0;
    for (const int64_t tid : tids) sum += by_thread.contains(tid) ? by_thread.at(tid) : 0;
    return sum;
  }
};

template <const char* kScenario>
class Scenario : public SchedLive {
 protected:
  Scenario() : SchedLive(kScenario) {}

  static int Rounds() { return IsFull() ? 10 : 2; }

  /// Runs the scenario and compares every thread that was there before and after with the kernel's books.
  void RunExactly(int count) {
    before_ = ReadBefore();
    ASSERT_FALSE(before_.empty());
    ASSERT_EQ(process_.Do("run " + std::to_string(count)), "done");
    const auto after = RecordedProcess::Books(process_.pid());
    ASSERT_TRUE(collector_->Flush().ok());
    ExpectExactBooks(before_, after);
    for (const auto& [tid, books] : before_) {
      for (const auto& row : RowsSince(tid)) EXPECT_GE(row[slice_column::kStolen], 0);
    }
    EXPECT_EQ(rows_.LostSlices(), 0u);
    EXPECT_EQ(collector_->Counters().waits_lost, 0u);
  }
  /// Every wait from 20 us on is told, in parts that sum to it.
  WaitShares WaitsOf(int32_t tid) {
    WaitShares shares;
    std::map<int64_t, int64_t> told;   // start of a piece -> its duration
    std::map<int64_t, int64_t> parts;  // start of a piece -> the sum of its parts
    for (const auto& row : rows_.WaitsOf(tid)) {
      if (row[wait_column::kStart] < before_ns_) continue;
      told[row[wait_column::kStart]] = row[wait_column::kDur];
      parts[row[wait_column::kStart]] += row[wait_column::kPart];
      if (row[wait_column::kOccupantClass] == static_cast<int64_t>(OccupantClass::kUnknown))
        shares.unknown_ns += row[wait_column::kPart];
      else
        shares.by_thread[row[wait_column::kOccupant]] += row[wait_column::kPart];
    }
    EXPECT_EQ(parts, told) << "thread " << tid << ": parts do not sum to their piece of a wait";
    for (const auto& [start, dur_ns] : told) shares.told_ns += dur_ns;
    ExpectToldTurnByTurn(tid, told);
    EXPECT_LE(shares.unknown_ns, shares.told_ns / 100) << "thread " << tid;
    return shares;
  }
  /// The pieces between two turns are the wait of the later one; where its switch-in was not shown and the wait had to be worked
  /// out, what migrations told before may reach further back.
  void ExpectToldTurnByTurn(int32_t tid, const std::map<int64_t, int64_t>& pieces) {
    auto piece = pieces.begin();
    int64_t before_ns = 0;
    for (const auto& row : RowsSince(tid)) {
      int64_t told_ns = 0;
      for (; piece != pieces.end() && piece->first < row[slice_column::kOn]; ++piece) told_ns += piece->second;
      const int64_t wait_ns = row[slice_column::kWait];
      const bool is_healed = row[slice_column::kState] & kSliceHealed;
      const int64_t recordable_ns = wait_ns >= int64_t{STEPSCOPE_WAIT_MIN_NS} ? wait_ns : 0;
      const bool is_right =
          is_healed ? told_ns >= recordable_ns && told_ns <= row[slice_column::kOn] - before_ns : told_ns == recordable_ns;
      EXPECT_TRUE(is_right) << "thread " << tid << ": told " << told_ns << " ns of a wait of " << wait_ns
                            << (is_healed ? " before a healed turn" : "") << " since " << before_ns << ", on at "
                            << row[slice_column::kOn] << " waker kind " << row[slice_column::kWakerKind] << " state "
                            << row[slice_column::kState];
      before_ns = row[slice_column::kOn] + row[slice_column::kDur];
    }
    EXPECT_TRUE(piece == pieces.end()) << "thread " << tid << ": a piece of a wait that no turn ended";
  }
  int32_t OnlyWorker() const {
    for (const auto& [tid, books] : before_) {
      if (tid != process_.pid()) return tid;
    }
    return 0;
  }
  std::vector<int64_t> Workers() const {
    std::vector<int64_t> tids;
    for (const auto& [tid, books] : before_) {
      if (tid != process_.pid()) tids.push_back(tid);
    }
    return tids;
  }
  /// Of the told waits, how much names `tids`.
  static void ExpectShareOnIdleMachine(const WaitShares& shares, std::initializer_list<int64_t> tids, double share) {
    const double seen = static_cast<double>(shares.Of(tids)) / static_cast<double>(shares.told_ns);
    ::testing::Test::RecordProperty("share", std::to_string(seen));
    if (!IsFull()) share = 0.3;  // strangers share the CPUs of a test machine
    EXPECT_GE(seen, share) << "ns by thread: " << ::testing::PrintToString(shares.by_thread);
  }

  std::map<int32_t, KernelBooks> before_;
};

#define SCENARIO(fixture, text)               \
  constexpr char k##fixture##Name[] = text;   \
  using fixture = Scenario<k##fixture##Name>; \
  // the tests of it follow

SCENARIO(Futex, "futex")
SCENARIO(PinnedPipe, "pinned pipe")
SCENARIO(VictimOfAHog, "victim")
SCENARIO(ThreeHogs, "three hogs")
SCENARIO(MigrationStorm, "migration storm")
SCENARIO(Loopback, "loopback")
SCENARIO(Nanosleep, "nanosleep")
SCENARIO(Poll, "poll")
SCENARIO(Faults, "faults")
SCENARIO(ThreadStorm, "thread storm")

// Of the turns that began from a blocked state, how many name a waker of `kind`, and `tid` if it is not 0.
struct Wakes {
  int64_t all = 0;
  int64_t right = 0;
};
Wakes CountWakes(const std::vector<KeptRows::Row>& rows, WakerKind kind, int64_t tid) {
  Wakes wakes;
  bool was_blocked = false;
  for (const auto& row : rows) {
    if (was_blocked) {
      ++wakes.all;
      wakes.right +=
          row[slice_column::kWakerKind] == static_cast<int64_t>(kind) && (tid == 0 || row[slice_column::kWaker] == tid);
    }
    was_blocked = static_cast<SliceState>(row[slice_column::kState] & 0xff) == SliceState::kBlocked;
  }
  return wakes;
}

TEST_F(Futex, PartnersWakeEachOther) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  for (int round = 0; round < Rounds(); ++round) RunExactly(5000);
  const auto tids = Workers();
  for (const int64_t tid : tids) {
    const Wakes wakes = CountWakes(RowsSince(static_cast<int32_t>(tid)), WakerKind::kTask, tids[0] + tids[1] - tid);
    EXPECT_GT(wakes.all, 1000);
    EXPECT_GE(wakes.right, wakes.all * 98 / 100) << "the first and last wakes of a round are the gate's";
  }
}

TEST_F(PinnedPipe, PartnersOnOneCpuWakeEachOther) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  for (int round = 0; round < Rounds(); ++round) RunExactly(10000);
  const auto tids = Workers();
  for (const int64_t tid : tids) {
    const Wakes wakes = CountWakes(RowsSince(static_cast<int32_t>(tid)), WakerKind::kTask, tids[0] + tids[1] - tid);
    EXPECT_GT(wakes.all, 1000);  // the kernel may preempt the writer before it blocks: then its next read need not wait
    EXPECT_GE(wakes.right, wakes.all * 99 / 100);
  }
}

TEST_F(VictimOfAHog, TheStrangerIsNamed) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  const Stranger stranger;
  for (int round = 0; round < Rounds(); ++round) {
    RunExactly(40);
    const WaitShares shares = WaitsOf(OnlyWorker());
    EXPECT_GT(shares.told_ns, 20'000'000);
    ExpectShareOnIdleMachine(shares, {stranger.pid()}, 0.99);
  }
}

TEST_F(ThreeHogs, EachWaitsForTheOtherTwo) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  for (int round = 0; round < Rounds(); ++round) {
    RunExactly(80);
    const auto tids = Workers();
    ASSERT_EQ(tids.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      const WaitShares shares = WaitsOf(static_cast<int32_t>(tids[i]));
      ExpectShareOnIdleMachine(shares, {tids[(i + 1) % 3], tids[(i + 2) % 3]}, 0.98);
    }
  }
}

TEST_F(MigrationStorm, WaitsThatChangeTheirCpuStillAddUp) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  for (int round = 0; round < Rounds(); ++round) {
    RunExactly(150);
    for (const int64_t tid : Workers()) WaitsOf(static_cast<int32_t>(tid));
  }
}

TEST_F(Loopback, ThePeerIsNamedThroughTheNetworkStack) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  for (int round = 0; round < Rounds(); ++round) RunExactly(3000);
  const auto tids = Workers();
  for (const int64_t tid : tids) {
    const Wakes wakes = CountWakes(RowsSince(static_cast<int32_t>(tid)), WakerKind::kLocalNet, tids[0] + tids[1] - tid);
    EXPECT_GT(wakes.all, 1000);
    EXPECT_GE(wakes.right, wakes.all * 98 / 100);
  }
}

TEST_F(Nanosleep, TimersWakeAndNobodyIsNamed) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  for (int round = 0; round < Rounds(); ++round) RunExactly(500);
  const Wakes wakes = CountWakes(RowsSince(OnlyWorker()), WakerKind::kTimer, 0);
  EXPECT_GT(wakes.all, 400);
  EXPECT_GE(wakes.right, wakes.all * 98 / 100);
}

TEST_F(Poll, TheFirstDescriptorStandsInArg0) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  RunExactly(100);
  int64_t polls = 0;
  std::set<int64_t> descriptors;
  for (const auto& row : RowsSince(OnlyWorker())) {
    if (row[slice_column::kSyscall] != kNrPoll) continue;
    ++polls;
    descriptors.insert(row[slice_column::kArg0]);
  }
  EXPECT_GE(polls, 90);
  ASSERT_EQ(descriptors.size(), 1u);
  EXPECT_GE(*descriptors.begin(), 3);
  EXPECT_LT(*descriptors.begin(), 1024) << "a descriptor, not a pointer";
}

TEST_F(Faults, AreTheKernelsCount) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  for (int round = 0; round < Rounds(); ++round) RunExactly(20);
  EXPECT_GE(Sum(RowsSince(OnlyWorker()), slice_column::kMinFaults), 20 * 1024);
}

TEST_F(ThreadStorm, TheThreadThatWaitsForThemIsExactAndAllOfThemAreClosed) {
  StartWith({});
  if (IsSkipped()) return;
  TrackThenExec();
  // What a sanitizer's own thread in the forked child added until its exec.
  const absl::StatusOr<SchedBooks> at_start = collector_->Books(kRun);
  ASSERT_TRUE(at_start.ok());
  for (int round = 1; round <= Rounds(); ++round) {
    RunExactly(1000);
    absl::StatusOr<SchedBooks> books = collector_->Books(kRun);
    ASSERT_TRUE(books.ok());
    EXPECT_EQ(books->closed_threads - at_start->closed_threads, static_cast<uint64_t>(round) * 1000);
    EXPECT_EQ(books->events_lost, 0u);
  }
}

}  // namespace
}  // namespace stepscope
