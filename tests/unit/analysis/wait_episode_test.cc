// SPDX-License-Identifier: Apache-2.0
#include "analysis/wait_episode.h"

#include <gtest/gtest.h>

#include <random>

#include "thread_life.h"

namespace stepscope {
namespace {

constexpr uint64_t kWord = 0x9000;

std::vector<WaitEpisode> EpisodesOf(const ThreadLife& life) { return RecordedRun({life}).Of(life.tid()).episodes; }

TEST(Episodes, TimeOutsOfOneWaitAreOneWait) {
  ThreadLife life(7, 0);
  life.Runs(kMs);
  for (int i = 0; i < 9; ++i) life.WaitsForGil(5 * kMs, ByTimer()).Runs(10 * kUs);
  life.WaitsForGil(3 * kMs, ByThread(8)).Runs(kMs);
  const auto episodes = EpisodesOf(life);
  ASSERT_EQ(episodes.size(), 1u);
  EXPECT_EQ(episodes[0].cause, WaitCause::kGil);
  EXPECT_EQ(episodes[0].sleeps, 10u);
  EXPECT_EQ(episodes[0].timeouts, 9u);
  EXPECT_EQ(episodes[0].asleep_ns, 48 * kMs);
  EXPECT_EQ(episodes[0].begin.ns, kMs);
  EXPECT_EQ(episodes[0].end.ns, kMs + 48 * kMs + 90 * kUs);
  EXPECT_EQ(episodes[0].waker, Tid{8});
}

TEST(Episodes, ARealWakeClosesOne) {
  const auto episodes = EpisodesOf(ThreadLife(7, 0)
                                       .Runs(10)
                                       .Sleeps(call::kPoll, 3, 100, ByThread(8))
                                       .Runs(10)
                                       .Sleeps(call::kPoll, 3, 100, ByThread(8))
                                       .Runs(10));
  EXPECT_EQ(episodes.size(), 2u);
}

TEST(Episodes, RunningFor200UsClosesOneAndPreemptionDoesNotCount) {
  const auto wait = [](int64_t ran_ns, int64_t preempted_ns) {
    return EpisodesOf(ThreadLife(7, 0)
                          .Runs(10)
                          .Sleeps(call::kEpollWait, 3, 100, ByTimer())
                          .Runs(ran_ns / 2)
                          .IsPreempted(preempted_ns)
                          .Runs(ran_ns / 2)
                          .Sleeps(call::kEpollWait, 3, 100, ByTimer())
                          .Runs(10));
  };
  EXPECT_EQ(wait(kBurstNs - 2, 0).size(), 1u);
  EXPECT_EQ(wait(kBurstNs, 0).size(), 2u);
  EXPECT_EQ(wait(kBurstNs - 2, 50 * kMs).size(), 1u);
  EXPECT_EQ(wait(100, 50 * kMs)[0].asleep_ns, 200);
}

TEST(Episodes, WordsOfOneConditionAreOneLock) {
  const auto words = [](uint64_t first, uint64_t second, uint64_t third) {
    return EpisodesOf(ThreadLife(7, 0)
                          .Runs(10)
                          .Sleeps(call::kFutex, first, 100, ByTimer())
                          .Runs(10)
                          .Sleeps(call::kFutex, second, 100, ByTimer())
                          .Runs(10)
                          .Sleeps(call::kFutex, third, 100, ByThread(8))
                          .Runs(10));
  };
  EXPECT_EQ(words(kWord, kWord + 4, kWord + 48).size(), 1u);
  EXPECT_EQ(words(kWord, kWord - 48, kWord).size(), 1u);
  EXPECT_EQ(words(kWord, kWord + 49, kWord + 49).size(), 2u);
  EXPECT_EQ(words(kWord, kWord + 40, kWord + 80).size(), 2u) << "a lock does not grow word by word";
}

TEST(Episodes, AnotherDescriptorOrCallIsAnotherWait) {
  const ThreadLife life = ThreadLife(7, 0)
                              .Runs(10)
                              .Sleeps(call::kPoll, 3, 100, ByTimer())
                              .Runs(10)
                              .Sleeps(call::kPoll, 4, 100, ByTimer())
                              .Runs(10)
                              .Sleeps(call::kEpollWait, 4, 100, ByTimer())
                              .Runs(10);
  EXPECT_EQ(EpisodesOf(life).size(), 3u);
}

/// The rule, read off its definition: two neighbouring sleeps belong together iff all its conditions hold.
std::vector<std::pair<size_t, size_t>> ByDefinition(const std::vector<Gap>& gaps) {
  std::vector<size_t> sleeps;
  for (size_t i = 0; i < gaps.size(); ++i) {
    if (IsAsleep(gaps[i].cause)) sleeps.push_back(i);
  }
  std::vector<std::pair<size_t, size_t>> episodes;
  for (size_t s = 0; s < sleeps.size(); ++s) {
    const Gap& gap = gaps[sleeps[s]];
    bool joins = s > 0 && gaps[sleeps[s - 1]].ended_by == WakerKind::kTimer && gap.cause != WaitCause::kNotRecorded &&
                 gaps[sleeps[s - 1]].cause == gap.cause;
    int64_t ran_ns = 0;
    for (size_t i = s > 0 ? sleeps[s - 1] + 1 : 0; i <= sleeps[s]; ++i) ran_ns += gaps[i].ran_before_ns;
    joins = joins && ran_ns < kBurstNs;
    if (joins && gap.cause != WaitCause::kGil) {
      for (size_t i = episodes.back().first; i < sleeps[s]; ++i) {
        if (!IsAsleep(gaps[i].cause)) continue;
        const auto apart = static_cast<uint64_t>(std::abs(static_cast<int64_t>(gaps[i].arg0) - static_cast<int64_t>(gap.arg0)));
        joins = joins && gaps[i].syscall == gap.syscall && apart <= (gap.cause == WaitCause::kLock ? kLockSpanBytes : 0);
      }
    }
    if (!joins) episodes.emplace_back(sleeps[s], 0);
    episodes.back().second = sleeps[s];
  }
  return episodes;
}

TEST(Episodes, AgreeWithTheDefinitionAndAddUp) {
  std::mt19937 random(23);
  for (int round = 0; round < 2000; ++round) {
    ThreadLife life(7, 0);
    for (int i = 0; i < 20; ++i) {
      life.Runs(static_cast<int64_t>(random() % 5) * 60 * kUs);
      const Wake wake = random() % 3 != 0 ? ByTimer() : ByThread(8);
      switch (random() % 4) {
        case 0:
          life.IsPreempted(kMs);
          break;
        case 1:
          life.WaitsForGil(kMs, wake, kTestGil.begin + random() % 208);
          break;
        case 2:
          life.Sleeps(call::kFutex, kWord + 8 * (random() % 10), kMs, wake);
          break;
        default:
          life.Sleeps(random() % 2 ? call::kPoll : call::kRead, random() % 2, kMs, wake);
      }
      if (random() % 10 == 0) life.LosesRows(1);
    }
    life.Runs(1);
    const RecordedRun run({life});
    const ThreadHistory& thread = run.Of(7);
    const auto expected = ByDefinition(thread.gaps);
    ASSERT_EQ(thread.episodes.size(), expected.size()) << "round " << round;
    int64_t asleep_ns = 0;
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ(thread.episodes[i].first_gap, expected[i].first) << "round " << round;
      ASSERT_EQ(thread.episodes[i].last_gap, expected[i].second) << "round " << round;
      asleep_ns += thread.episodes[i].asleep_ns;
    }
    for (const Gap& gap : thread.gaps) asleep_ns -= IsAsleep(gap.cause) ? gap.asleep_ns() : 0;
    ASSERT_EQ(asleep_ns, 0) << "round " << round;
  }
}

}  // namespace
}  // namespace stepscope
