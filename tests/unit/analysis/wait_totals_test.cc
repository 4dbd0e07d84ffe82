// SPDX-License-Identifier: Apache-2.0
#include "analysis/wait_totals.h"

#include <gtest/gtest.h>

#include <random>

#include "thread_life.h"

namespace stepscope {
namespace {

constexpr TimeRange kAlways{NodeTime{INT64_MIN / 2}, NodeTime{INT64_MAX / 2}};

std::map<WaitKey, WaitSum> TotalsOf(const RecordedRun& run, uint32_t lane, TimeRange window = kAlways) {
  WaitTotals totals(window);
  totals.Add(*run.history);
  const auto found = totals.threads().find(lane);
  return found == totals.threads().end() ? std::map<WaitKey, WaitSum>{} : found->second;
}

TEST(WaitTotals, AWaitForTheGilIsChargedToItsHolderWithWhatItDid) {
  ThreadLife waiter(1, 0);
  waiter.Runs(kMs);
  for (int i = 0; i < 9; ++i) waiter.WaitsForGil(5 * kMs, ByTimer()).Runs(10);
  waiter.WaitsForGil(5 * kMs, ByThread(2)).Runs(kMs);
  const RecordedRun run({waiter, ThreadLife(2, 0).Runs(kMs).Sleeps(call::kClockNanosleep, 1, 50 * kMs, ByTimer()).Runs(9 * kMs)});
  const auto totals = TotalsOf(run, 1);
  ASSERT_EQ(totals.size(), 1u);
  const auto& [key, sum] = *totals.begin();
  EXPECT_EQ(key.cause, WaitCause::kGil);
  EXPECT_EQ(key.peer_lane, 2u);
  EXPECT_EQ(key.end, ChainEnd::kBlocked);
  EXPECT_EQ(key.root_syscall, call::kClockNanosleep);
  EXPECT_EQ(sum.ns, 50 * kMs);
  EXPECT_EQ(sum.count, 1u);
  EXPECT_EQ(sum.timeouts, 9u);
}

TEST(WaitTotals, AnOrdinaryWaitNamesItsWakerAndTheEndOfTheChain) {
  const RecordedRun run({ThreadLife(1, 0).Runs(kMs).Sleeps(call::kPoll, 5, 13 * kMs, ByThread(21)).Runs(kMs),
                         ThreadLife(21, 0, 2).Runs(10).Sleeps(call::kFutex, 0x9000, 13 * kMs, ByThread(20)).Runs(3 * kMs),
                         ThreadLife(20, 0, 2).Runs(20 * kMs)});
  const auto totals = TotalsOf(run, 1);
  ASSERT_EQ(totals.size(), 1u);
  EXPECT_EQ(totals.begin()->first.peer_lane, 21u);
  EXPECT_EQ(totals.begin()->first.root_lane, 20u);
  EXPECT_EQ(totals.begin()->first.end, ChainEnd::kRunning);
}

TEST(WaitTotals, AShortWaitIsNotFollowed) {
  const RecordedRun run({ThreadLife(1, 0).Runs(kMs).Sleeps(call::kPoll, 5, 99 * kUs, ByThread(2)).Runs(kMs),
                         ThreadLife(2, 0).Runs(10).Sleeps(call::kFutex, 0x9000, 1090 * kUs, ByThread(3)).Runs(3 * kMs),
                         ThreadLife(3, 0).Runs(20 * kMs)});
  const auto totals = TotalsOf(run, 1);
  EXPECT_EQ(totals.begin()->first.peer_lane, 2u);
  EXPECT_EQ(totals.begin()->first.end, ChainEnd::kNotFollowed);
}

TEST(WaitTotals, ThrottledTimeIsToldAlthoughItIsNoSleep) {
  const RecordedRun run({ThreadLife(1, 0).Runs(kMs).IsPreempted(80 * kMs, SliceState::kThrottled).Runs(kMs)});
  const auto totals = TotalsOf(run, 1);
  ASSERT_EQ(totals.size(), 1u);
  EXPECT_EQ(totals.begin()->first.cause, WaitCause::kThrottled);
  EXPECT_EQ(totals.begin()->second.ns, 80 * kMs);
}

/// Whatever the causes, holders and chains: the parts are the time asleep in the window, to the nanosecond.
TEST(WaitTotals, PartsAddUpToTheTimeAsleepInAnyWindow) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<ThreadLife> lives;
    for (int32_t tid = 1; tid <= 5; ++tid) {
      ThreadLife life(tid, static_cast<int64_t>(random() % 300) * kUs, 1 + tid % 2);
      for (int i = 0; i < 12; ++i) {
        life.Runs(static_cast<int64_t>(1 + random() % 300) * kUs);
        const auto ns = static_cast<int64_t>(random() % 900) * kUs;
        const Wake wake = random() % 2 ? ByTimer() : ByThread(1 + static_cast<int32_t>(random() % 6));
        switch (random() % 5) {
          case 0:
            life.IsPreempted(ns);
            break;
          case 1:
            life.Sleeps(call::kRead, random() % 3, ns, wake, 20 * kUs);
            break;
          case 2:
            life.Sleeps(call::kFutex, 0x9000 + random() % 60, ns, wake);
            break;
          default:
            life.WaitsForGil(ns, wake);
        }
        if (random() % 15 == 0) life.LosesRows(1);
      }
      lives.push_back(life.Runs(kUs));
    }
    const RecordedRun run(lives);
    const auto begin = static_cast<int64_t>(random() % 3000) * kUs;
    const TimeRange window{NodeTime{begin}, NodeTime{begin + static_cast<int64_t>(random() % 9000) * kUs}};
    for (uint32_t lane = 1; lane <= 5; ++lane) {
      int64_t expected = 0;
      for (const Gap& gap : run.history->threads().at(lane).gaps) {
        if (IsAsleep(gap.cause)) expected += window.Clip(gap.off.ns, gap.ready.ns);
      }
      int64_t sum = 0;
      for (const auto& part : TotalsOf(run, lane, window)) sum += part.second.ns;
      ASSERT_EQ(sum, expected) << "round " << round << " lane " << lane;
    }
  }
}

}  // namespace
}  // namespace stepscope
