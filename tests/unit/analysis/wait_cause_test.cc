// SPDX-License-Identifier: Apache-2.0
#include "analysis/wait_cause.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <map>
#include <random>
#include <set>

#include "system_call_names.h"
#include "thread_life.h"

namespace stepscope {
namespace {

using enum WaitCause;

WaitCause CauseOf(int16_t syscall, uint64_t arg0, WakerKind ended_by, SliceState state = SliceState::kBlocked) {
  Turn turn;
  turn.syscall = syscall;
  turn.arg0 = arg0;
  turn.state = state;
  return CauseOf(turn, ended_by, kTestGil, Machine::kX86);
}

TEST(WaitCause, FollowsFromTheCallAndWhoEndedIt) {
  EXPECT_EQ(CauseOf(call::kFutex, kTestGil.begin + 40, WakerKind::kTimer), kGil);
  EXPECT_EQ(CauseOf(call::kFutex, kTestGil.end, WakerKind::kTask), kLock);
  EXPECT_EQ(CauseOf(call::kClockNanosleep, 1, WakerKind::kTimer), kSleep);
  EXPECT_EQ(CauseOf(call::kPoll, 5, WakerKind::kTask), kPoll);
  EXPECT_EQ(CauseOf(call::kRecvfrom, 5, WakerKind::kLocalNet), kSocket);
  EXPECT_EQ(CauseOf(call::kRead, 5, WakerKind::kTask), kPipe);
  EXPECT_EQ(CauseOf(call::kRead, 5, WakerKind::kNet), kSocket);
  EXPECT_EQ(CauseOf(call::kRead, 5, WakerKind::kDisk), kDisk);
  EXPECT_EQ(CauseOf(call::kWait4, 77, WakerKind::kTask), kChild);
  EXPECT_EQ(CauseOf(call::kFsync, 5, WakerKind::kTask), kDisk);
  EXPECT_EQ(CauseOf(16, 5, WakerKind::kTask), kOther);
  EXPECT_EQ(CauseOf(16, 5, WakerKind::kDisk), kDisk);
}

TEST(WaitCause, ASleepOutsideAnyCallIsAFault) {
  EXPECT_EQ(CauseOf(-1, 0, WakerKind::kTask), kFault);
  EXPECT_EQ(CauseOf(-1, 0, WakerKind::kDisk), kPageIn);
  EXPECT_EQ(CauseOf(-1, 0, WakerKind::kUnknown, SliceState::kBlockedIo), kPageIn);
  EXPECT_EQ(CauseOf(call::kPread, 3, WakerKind::kUnknown, SliceState::kBlockedIo), kDisk);
}

TEST(WaitCause, TheStateComesBeforeTheCall) {
  const uint64_t gil = kTestGil.begin;
  EXPECT_EQ(CauseOf(call::kFutex, gil, WakerKind::kTask, SliceState::kThrottled), kThrottled);
  EXPECT_EQ(CauseOf(call::kFutex, gil, WakerKind::kTask, SliceState::kStopped), kStopped);
  EXPECT_EQ(CauseOf(call::kFutex, gil, WakerKind::kTask, SliceState::kTraced), kTraced);
  EXPECT_EQ(CauseOf(call::kFutex, gil, WakerKind::kNone, SliceState::kRunnable), kRunnable);
  EXPECT_EQ(CauseOf(-1, 0, WakerKind::kNone, SliceState::kPreempted), kRunnable);
}

TEST(WaitCause, WithoutAKnownGilAFutexIsALock) {
  Turn turn;
  turn.syscall = call::kFutex;
  turn.arg0 = kTestGil.begin;
  EXPECT_EQ(CauseOf(turn, WakerKind::kTimer, {}, Machine::kX86), kLock);
}

TEST(WaitCause, NumbersAreTheMachines) {
  EXPECT_EQ(SystemCallName(202, Machine::kX86), "futex");
  EXPECT_EQ(SystemCallName(98, Machine::kArm), "futex");
  EXPECT_EQ(SystemCallName(202, Machine::kArm), "accept");
  EXPECT_EQ(SystemCallName(9999, Machine::kX86), "syscall 9999");
  EXPECT_EQ(SystemCallName(-1, Machine::kX86), "");
  EXPECT_EQ(CallClassOf(98, Machine::kX86), CallClass::kOther);
  std::set<int16_t> x86, arm;
  for (const SystemCall& known : KnownSystemCalls()) {
    EXPECT_TRUE(known.x86 < 0 || x86.insert(known.x86).second) << known.name;
    EXPECT_TRUE(known.arm < 0 || arm.insert(known.arm).second) << known.name;
  }
}

TEST(WaitCause, NumbersAgreeWithTheHeadersOfThisMachine) {
#define STEPSCOPE_NUMBER(name) {#name, SYS_##name},
  const std::map<std::string_view, int64_t> header = {STEPSCOPE_SYSTEM_CALLS(STEPSCOPE_NUMBER)
#if defined(__x86_64__)
                                                          STEPSCOPE_NUMBER(poll) STEPSCOPE_NUMBER(select)
                                                              STEPSCOPE_NUMBER(epoll_wait) STEPSCOPE_NUMBER(open)
                                                                  STEPSCOPE_NUMBER(pause) STEPSCOPE_NUMBER(vfork)
#endif
  };
#undef STEPSCOPE_NUMBER
  for (const SystemCall& known : KnownSystemCalls()) {
    const int16_t number = ThisMachine() == Machine::kX86 ? known.x86 : known.arm;
    const auto expected = header.find(known.name);
    if (expected == header.end()) continue;
    EXPECT_EQ(number, expected->second) << known.name;
  }
}

TEST(Gaps, AreSplitIntoAsleepAndRunnable) {
  const RecordedRun run({ThreadLife(7, 100).Runs(10).Sleeps(call::kPoll, 3, 50, ByThread(9), 5).Runs(1)});
  ASSERT_EQ(run.Of(7).gaps.size(), 1u);
  const Gap& gap = run.Of(7).gaps[0];
  EXPECT_EQ(gap.off.ns, 110);
  EXPECT_EQ(gap.ready.ns, 160);
  EXPECT_EQ(gap.on.ns, 165);
  EXPECT_EQ(gap.ran_before_ns, 10);
  EXPECT_EQ(gap.waker, Tid{9});
}

TEST(Gaps, BehindAHoleInSeqNothingIsClaimed) {
  const RecordedRun run({ThreadLife(7, 0).Runs(10).Sleeps(call::kPoll, 3, 50, ByThread(9)).LosesRows(2).Runs(1)});
  EXPECT_EQ(run.Of(7).gaps[0].cause, kNotRecorded);
  EXPECT_EQ(run.Of(7).gaps[0].waker, Tid{});
}

TEST(Gaps, AThreadIdUsedAgainWaitedForNothing) {
  const RecordedRun run({ThreadLife(7, 0).Runs(10).Sleeps(60, 0, 50, {}, 0, SliceState::kDead).LosesRows(9).Runs(1)});
  EXPECT_EQ(run.Of(7).gaps[0].cause, kEnded);
}

TEST(ThreadTurnsTest, WindowsThatTileSeeEachTurnOnceAndCarryTheLast) {
  const std::vector<ThreadLife> lives = {ThreadLife(7, 0).Runs(10).Sleeps(0, 3, 30, ByTimer()).Runs(10).IsPreempted(5).Runs(40)};
  ThreadTurns turns;
  turns.Add(RowsOf(lives), {NodeTime{0}, NodeTime{10}});
  EXPECT_EQ(turns.turns(), 1u);
  turns.KeepLast();
  turns.Add(RowsOf(lives), {NodeTime{10}, NodeTime{100}});
  turns.Sort();
  EXPECT_EQ(turns.turns(), 3u);
  EXPECT_EQ(turns.lanes().at(7)[0].on.ns, 0);
  turns.KeepLast();
  EXPECT_EQ(turns.turns(), 1u);
  EXPECT_EQ(turns.lanes().at(7)[0].on.ns, 55);
}

/// Every nanosecond between the first and the last turn is running, runnable, asleep for one thing, or not known.
TEST(Activity, AgreesWithCountingEveryNanosecond) {
  std::mt19937 random(5);
  for (int round = 0; round < 1000; ++round) {
    ThreadLife life(7, static_cast<int64_t>(random() % 10));
    for (int i = 0; i < 8; ++i) {
      life.Runs(1 + static_cast<int64_t>(random() % 6));
      if (random() % 4 == 0) {
        life.IsPreempted(static_cast<int64_t>(random() % 5));
      } else {
        life.Sleeps(static_cast<int16_t>(random() % 2 ? call::kPoll : call::kRead), random() % 2,
                    static_cast<int64_t>(random() % 7), random() % 2 ? ByTimer() : ByThread(9),
                    static_cast<int64_t>(random() % 4));
      }
      if (random() % 6 == 0) life.LosesRows(1);
    }
    life.Runs(3);
    const RecordedRun run({life});
    const ThreadHistory& thread = run.Of(7);
    const int64_t begin = static_cast<int64_t>(random() % 60);
    const int64_t end = begin + static_cast<int64_t>(random() % 60);
    int64_t running = 0, runnable = 0, unknown = 0;
    std::map<std::pair<int16_t, uint64_t>, int64_t> asleep;
    for (int64_t t = begin; t < end; ++t) {
      bool known = false;
      for (const Turn& turn : thread.turns) {
        if (turn.on.ns <= t && t < turn.off.ns) known = ++running;
      }
      for (const Gap& gap : thread.gaps) {
        if (gap.cause == kNotRecorded || t < gap.off.ns || t >= gap.on.ns) continue;
        known = true;
        if (t >= gap.ready.ns) {
          ++runnable;
        } else {
          ++asleep[{gap.syscall, gap.arg0}];
        }
      }
      unknown += known ? 0 : 1;
    }
    const ThreadActivity activity = ActivityOf(thread, {NodeTime{begin}, NodeTime{end}});
    ASSERT_EQ(activity.running_ns, running) << "round " << round;
    ASSERT_EQ(activity.runnable_ns, runnable) << "round " << round;
    ASSERT_EQ(activity.unknown_ns, unknown) << "round " << round;
    for (const SleepShare& share : activity.sleeps) {
      const int64_t expected = asleep[{share.syscall, share.arg0}];
      ASSERT_EQ(share.ns, expected) << "round " << round;
      asleep.erase({share.syscall, share.arg0});
    }
    for (const auto& left : asleep) ASSERT_EQ(left.second, 0) << "round " << round;
  }
}

}  // namespace
}  // namespace stepscope
