// SPDX-License-Identifier: Apache-2.0
#include "analysis/lock_holder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "thread_life.h"

namespace stepscope {
namespace {

LockHolders HoldersOf(const RecordedRun& run) { return LockHolders(run.history->OfProcess(1)); }

TEST(LockHolder, OfTwoThreadsTheOtherHoldsEvenIfATimerEndedTheWait) {
  const RecordedRun run({ThreadLife(1, 0).Runs(kMs).WaitsForGil(5 * kMs, ByTimer()).Runs(kMs), ThreadLife(2, 0).Runs(7 * kMs),
                         ThreadLife(3, 0).Runs(kMs).WaitsForGil(5 * kMs, ByThread(2), kTestGil.begin).Runs(kMs)});
  const RecordedRun two({ThreadLife(1, 0).Runs(kMs).WaitsForGil(5 * kMs, ByTimer()).Runs(kMs),
                         ThreadLife(2, 0).Runs(7 * kMs).WaitsForGil(10, ByThread(1)).Runs(10)});
  EXPECT_EQ(HoldersOf(run).contenders(), 3u);
  EXPECT_EQ(HoldersOf(two).Of(1, NodeTime{kMs}, NodeTime{6 * kMs}), (std::vector<Hold>{{NodeTime{kMs}, NodeTime{6 * kMs}, 2}}));
}

TEST(LockHolder, AThreadThatNeverTouchesTheLockHoldsNothing) {
  const RecordedRun run({ThreadLife(1, 0).Runs(kMs).WaitsForGil(5 * kMs, ByThread(2)).Runs(kMs), ThreadLife(2, 0).Runs(7 * kMs),
                         ThreadLife(3, 0).Runs(kMs).Sleeps(call::kFutex, 0x9000, kMs, ByThread(1)).Runs(5 * kMs)});
  EXPECT_EQ(HoldersOf(run).contenders(), 2u);
  EXPECT_EQ(HoldersOf(run).Of(1, NodeTime{kMs}, NodeTime{6 * kMs})[0].holder, 2u);
}

/// Thread 2 holds for 20 ms, hands over to 3, which holds for 1 ms and wakes 1: the final waker is 3, the holder was 2.
RecordedRun ThreeRivals() {
  ThreadLife one(1, 0), two(2, 0), three(3, 0);
  one.Runs(kMs);
  for (int i = 0; i < 4; ++i) one.WaitsForGil(5 * kMs, ByTimer()).Runs(10);
  one.WaitsForGil(kMs - 40, ByThread(3)).Runs(5 * kMs).WaitsForGil(kMs, ByThread(2)).Runs(kMs);
  two.Runs(21 * kMs).WaitsForGil(8 * kMs, ByThread(1)).Runs(10 * kMs);
  three.Runs(2 * kMs).WaitsForGil(19 * kMs, ByThread(2)).Runs(kMs).WaitsForGil(20 * kMs, ByTimer()).Runs(kMs);
  return RecordedRun({one, two, three});
}

TEST(LockHolder, WithRivalsTheFinalWakerIsNotChargedForTheOthers) {
  const RecordedRun run = ThreeRivals();
  EXPECT_EQ(HoldersOf(run).Of(1, NodeTime{3 * kMs}, NodeTime{22 * kMs - 40}),
            (std::vector<Hold>{{NodeTime{3 * kMs}, NodeTime{21 * kMs}, 2}, {NodeTime{21 * kMs}, NodeTime{22 * kMs - 40}, 3}}));
}

TEST(LockHolder, WhatTheHolderDidIsToldByItsTurns) {
  const RecordedRun run(
      {ThreadLife(1, 0).Runs(kMs).WaitsForGil(50 * kMs, ByThread(2)).Runs(kMs),
       ThreadLife(2, 0).Runs(2 * kMs).Sleeps(call::kClockNanosleep, 1, 45 * kMs, ByTimer(), 2 * kMs).Runs(9 * kMs)});
  const auto holds = HoldersOf(run).Of(1, NodeTime{kMs}, NodeTime{51 * kMs});
  const HeldTime held = HeldTimeOf(run.Of(2), holds);
  EXPECT_EQ(held.blocked_ns, 45 * kMs);
  EXPECT_EQ(held.runnable_ns, 2 * kMs);
  EXPECT_EQ(held.on_cpu_ns, 3 * kMs);
  EXPECT_EQ(held.unknown_ns, 0);
  EXPECT_EQ(held.blocked_cause, WaitCause::kSleep);
  EXPECT_EQ(held.blocked_syscall, call::kClockNanosleep);
}

/// The definition in the header, asked for one moment.
uint32_t HolderByDefinition(const RecordedRun& run, const std::set<uint32_t>& contenders, int64_t t) {
  std::pair<int64_t, uint32_t> last{INT64_MIN, 0};
  for (const auto& [lane, thread] : run.history->threads()) {
    if (!contenders.contains(lane)) continue;
    bool waits = false;
    int64_t acquired = INT64_MIN;
    const auto soon = [&](size_t from) {
      int64_t ran_ns = 0;
      for (size_t i = from; i < thread.gaps.size(); ++i) {
        ran_ns += thread.gaps[i].ran_before_ns;
        if (ran_ns >= kBurstNs) return false;
        if (IsAsleep(thread.gaps[i].cause)) return thread.gaps[i].cause == WaitCause::kGil;
      }
      return false;
    };
    if (thread.turns.front().on.ns <= t && !(thread.gaps.front().cause == WaitCause::kGil && soon(0))) {
      acquired = thread.turns.front().on.ns;
    }
    for (size_t i = 0; i < thread.gaps.size(); ++i) {
      const Gap& gap = thread.gaps[i];
      waits = waits || (gap.cause == WaitCause::kGil && gap.off.ns <= t && t < gap.on.ns);
      if (IsAsleep(gap.cause) && gap.on.ns <= t && !soon(i + 1)) acquired = std::max(acquired, gap.on.ns);
    }
    if (!waits && acquired != INT64_MIN) last = std::max(last, {acquired, lane});
  }
  return last.second;
}

TEST(LockHolder, AgreesWithTheDefinitionAtEveryMomentAndTilesTheWait) {
  std::mt19937 random(31);
  constexpr int64_t kGrain = 50 * kUs;
  for (int round = 0; round < 300; ++round) {
    std::vector<ThreadLife> lives;
    for (int32_t tid = 1; tid <= 4; ++tid) {
      ThreadLife life(tid, static_cast<int64_t>(random() % 10) * kGrain);
      for (int i = 0; i < 12; ++i) {
        life.Runs(static_cast<int64_t>(1 + random() % 8) * kGrain);
        const auto ns = static_cast<int64_t>(random() % 10) * kGrain;
        const Wake wake = random() % 2 ? ByTimer() : ByThread(1 + static_cast<int32_t>(random() % 4));
        switch (random() % 4) {
          case 0:
            life.IsPreempted(ns);
            break;
          case 1:
            life.Sleeps(call::kPoll, 3, ns, wake);
            break;
          default:
            life.WaitsForGil(ns, wake);
        }
      }
      lives.push_back(life.Runs(kGrain));
    }
    const RecordedRun run(lives);
    const LockHolders holders = HoldersOf(run);
    if (holders.contenders() < 4) continue;
    const auto begin = static_cast<int64_t>(random() % 100) * kGrain;
    const auto end = begin + static_cast<int64_t>(1 + random() % 60) * kGrain;
    const auto holds = holders.Of(1, NodeTime{begin}, NodeTime{end});
    int64_t at = begin;
    for (const Hold& hold : holds) {
      ASSERT_EQ(hold.begin.ns, at) << "round " << round;
      at = hold.end.ns;
      for (int64_t t = hold.begin.ns; t < hold.end.ns; t += kGrain) {
        ASSERT_EQ(hold.holder, HolderByDefinition(run, {1, 2, 3, 4}, t)) << "round " << round << " at " << t / kGrain;
      }
    }
    ASSERT_EQ(at, end) << "round " << round;
  }
}

}  // namespace
}  // namespace stepscope
