// SPDX-License-Identifier: Apache-2.0
#include "analysis/waker_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "thread_life.h"

namespace stepscope {
namespace {

std::vector<uint32_t> LanesOf(const WakerChain& chain) {
  std::vector<uint32_t> lanes;
  for (const ChainHop& hop : chain.hops) lanes.push_back(hop.lane);
  return lanes;
}
WakerChain Follow(const RecordedRun& run, int32_t tid, size_t episode = 0) {
  return FollowWakers(*run.history, run.Of(tid), run.Of(tid).episodes.at(episode));
}

TEST(WakerChain, ALoaderWaitEndsInTheWorkersItem) {
  // main polls <- feeder thread waits for the queue <- worker sleeps in __getitem__
  const RecordedRun run({ThreadLife(1, 0, 1).Runs(kMs).Sleeps(call::kPoll, 5, 13 * kMs, ByThread(21)).Runs(kMs),
                         ThreadLife(21, 0, 2).Runs(10).Sleeps(call::kFutex, 0x9000, 13 * kMs, ByThread(20)).Runs(3 * kMs),
                         ThreadLife(20, 0, 2).Runs(10).Sleeps(call::kClockNanosleep, 1, 12 * kMs, ByTimer()).Runs(4 * kMs)});
  const WakerChain chain = Follow(run, 1);
  EXPECT_THAT(LanesOf(chain), testing::ElementsAre(21, 20));
  EXPECT_EQ(chain.end, ChainEnd::kTimer);
  EXPECT_EQ(chain.hops[1].cause, WaitCause::kSleep);
  EXPECT_EQ(chain.hops[1].syscall, call::kClockNanosleep);
}

TEST(WakerChain, APeriodicTimeOutIsPassedOver) {
  ThreadLife loop(2, 0);
  loop.Runs(10);
  for (int i = 0; i < 4; ++i) loop.Sleeps(call::kEpollWait, 4, 10 * kMs, ByTimer()).Runs(10);
  loop.Sleeps(call::kEpollWait, 4, 5 * kMs, {WakerKind::kLocalNet, 3}).Runs(10 * kMs);
  const RecordedRun run({ThreadLife(1, 0).Runs(kMs).Sleeps(call::kFutex, 0x9000, 45 * kMs, ByThread(2)).Runs(kMs), loop,
                         ThreadLife(3, 0, 2).Runs(60 * kMs)});
  const WakerChain chain = Follow(run, 1);
  EXPECT_THAT(LanesOf(chain), testing::ElementsAre(2, 3));
  EXPECT_EQ(chain.end, ChainEnd::kRunning);
  EXPECT_FALSE(chain.hops[1].asleep);
}

TEST(WakerChain, WhatNoThreadDidIsNamedAsSuch) {
  const auto end = [](Wake wake) {
    return Follow(RecordedRun({ThreadLife(1, 0).Runs(kMs).Sleeps(call::kPoll, 5, kMs, wake).Runs(kMs)}), 1).end;
  };
  EXPECT_EQ(end(ByTimer()), ChainEnd::kTimer);
  EXPECT_EQ(end({WakerKind::kDisk, 0}), ChainEnd::kDisk);
  EXPECT_EQ(end({WakerKind::kNet, 0}), ChainEnd::kNetwork);
  EXPECT_EQ(end({WakerKind::kLocalNet, 0}), ChainEnd::kNetwork);
  EXPECT_EQ(end({WakerKind::kIrq, 0}), ChainEnd::kInterrupt);
  EXPECT_EQ(end(ByThread(99)), ChainEnd::kOutside);
  EXPECT_EQ(end({}), ChainEnd::kUnknown);
}

TEST(WakerChain, AStarvedWakerAndOneThatReadFromDiskAreEnds) {
  const auto with = [](const ThreadLife& waker) {
    return Follow(RecordedRun({ThreadLife(1, 0).Runs(kMs).Sleeps(call::kPoll, 5, 10 * kMs, ByThread(2)).Runs(kMs), waker}), 1);
  };
  EXPECT_EQ(with(ThreadLife(2, 0).Runs(kMs).IsPreempted(9 * kMs).Runs(3 * kMs)).end, ChainEnd::kRunnable);
  EXPECT_EQ(with(ThreadLife(2, 0).Runs(kMs).Sleeps(call::kRead, 7, 9 * kMs, {WakerKind::kDisk, 0}).Runs(3 * kMs)).end,
            ChainEnd::kDisk);
  EXPECT_EQ(with(ThreadLife(2, 9 * kMs).Runs(3 * kMs)).end, ChainEnd::kUnknown);
}

TEST(WakerChain, TwoThreadsThatWaitForEachOtherAreACycle) {
  const RecordedRun run({ThreadLife(1, 0).Runs(1).Sleeps(call::kPoll, 5, 10 * kMs, ByThread(2)).Runs(kMs),
                         ThreadLife(2, 0).Runs(1).Sleeps(call::kPoll, 6, 9 * kMs, ByThread(1)).Runs(2 * kMs)});
  EXPECT_EQ(Follow(run, 1).end, ChainEnd::kCycle);
}

TEST(WakerChain, EndsAfterEightThreads) {
  std::vector<ThreadLife> lives;
  for (int32_t tid = 1; tid <= 12; ++tid) {
    lives.push_back(ThreadLife(tid, 0).Runs(1).Sleeps(call::kPoll, 5, (100 - tid) * kMs, ByThread(tid + 1)).Runs(20 * kMs));
  }
  const WakerChain chain = Follow(RecordedRun(lives), 1);
  EXPECT_EQ(chain.hops.size(), kMostHops);
  EXPECT_EQ(chain.end, ChainEnd::kNotFollowed);
}

TEST(WakerChain, AThreadIdUsedAgainIsTheOneOfThatTime) {
  ThreadTurns turns;
  const std::vector<ThreadLife> lives = {ThreadLife(1, 0).Runs(1).Sleeps(call::kPoll, 5, 10 * kMs, ByThread(2)).Runs(kMs),
                                         ThreadLife(30, 0).Runs(kMs), ThreadLife(31, 2 * kMs).Runs(20 * kMs)};
  turns.Add(RowsOf(lives), {NodeTime{-1}, NodeTime{INT64_MAX}});
  turns.Sort();
  const RunHistory history(turns, [](uint32_t lane) { return ThreadFact{Tid{lane == 1 ? 1 : 2}, 1, {}}; }, Machine::kX86);
  const ThreadHistory& waiter = history.threads().at(1);
  EXPECT_THAT(LanesOf(FollowWakers(history, waiter, waiter.episodes[0])), testing::ElementsAre(31));
}

/// In random histories every chain ends, names each thread once, and each hop is what that thread did most.
TEST(WakerChain, IsSoundOnRandomHistories) {
  std::mt19937 random(41);
  for (int round = 0; round < 300; ++round) {
    std::vector<ThreadLife> lives;
    for (int32_t tid = 1; tid <= 6; ++tid) {
      ThreadLife life(tid, static_cast<int64_t>(random() % 5));
      for (int i = 0; i < 10; ++i) {
        life.Runs(1 + static_cast<int64_t>(random() % 5));
        life.Sleeps(random() % 3 ? call::kPoll : call::kClockNanosleep, random() % 2, 1 + static_cast<int64_t>(random() % 30),
                    random() % 4 ? ByThread(1 + static_cast<int32_t>(random() % 7)) : ByTimer(),
                    static_cast<int64_t>(random() % 4));
      }
      lives.push_back(life.Runs(400));
    }
    const RecordedRun run(lives);
    for (const WaitEpisode& episode : run.Of(1).episodes) {
      const WakerChain chain = FollowWakers(*run.history, run.Of(1), episode);
      std::set<uint32_t> lanes{1};
      for (const ChainHop& hop : chain.hops) ASSERT_TRUE(lanes.insert(hop.lane).second) << "round " << round;
      ASSERT_LE(chain.hops.size(), kMostHops);
      ASSERT_EQ(chain.hops.empty(), episode.waker.value < 2 || episode.waker.value > 6) << "round " << round;
      if (chain.hops.empty()) continue;
      ASSERT_EQ(chain.hops[0].lane, static_cast<uint32_t>(episode.waker.value));
      const ThreadActivity first = ActivityOf(run.Of(episode.waker.value), {episode.begin, episode.end});
      int64_t longest_ns = 0;
      for (const SleepShare& share : first.sleeps) longest_ns = std::max(longest_ns, share.ns);
      if (chain.hops[0].asleep) {
        ASSERT_GT(longest_ns, first.running_ns);
        ASSERT_GE(longest_ns, first.runnable_ns);
      }
    }
  }
}

}  // namespace
}  // namespace stepscope
