// SPDX-License-Identifier: Apache-2.0
#include "analysis/thread_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace stepscope {
namespace {

struct Turn {
  int64_t wait, on, off;
  int64_t state = 0;
  int64_t seq = 0;
};

void Append(Batch& batch, uint32_t lane, const Turn& turn) {
  batch.Append(lane, {turn.on, turn.off - turn.on, turn.wait, 0, 0, 0, 0, 0, turn.state, turn.seq, turn.off - turn.on + 1,
                      turn.wait + 2, 0, 0, 0});
}
Batch Slices(const std::vector<Turn>& turns) {
  Batch batch = Batch::For(TableId::kSchedSlice, RunId{1});
  for (const Turn& turn : turns) Append(batch, 3, turn);
  return batch;
}
ThreadTime TimeOf(const std::vector<Turn>& turns, int64_t begin, int64_t end) {
  ThreadTimes times({NodeTime{begin}, NodeTime{end}});
  times.Add(Slices(turns));
  return times.Finish()[3];
}

constexpr auto kDead = static_cast<int64_t>(SliceState::kDead);
constexpr auto kPreempted = static_cast<int64_t>(SliceState::kPreempted);

TEST(ThreadTime, RunningRunnableAndSleepingAddUpToTheLife) {
  const ThreadTime time = TimeOf({{5, 10, 30, kSliceFirst, 1}, {10, 50, 70, kDead, 2}}, 0, 100);
  EXPECT_EQ(time.running_ns, 40);
  EXPECT_EQ(time.runnable_ns, 15);
  EXPECT_EQ(time.SleepingNs({NodeTime{0}, NodeTime{100}}, NodeTime{0}, NodeTime{100}), (70 - 5) - 40 - 15);
}

TEST(ThreadTime, AThreadSeenMidLifeLivesAsLongAsTheCallerSays) {
  const ThreadTime time = TimeOf({{0, 10, 30, 0, 1}}, 0, 100);
  EXPECT_EQ(time.SleepingNs({NodeTime{0}, NodeTime{100}}, NodeTime{10}, NodeTime{30}), 0);
  EXPECT_EQ(time.SleepingNs({NodeTime{0}, NodeTime{100}}, NodeTime{0}, NodeTime{100}), 80);
}

TEST(ThreadTime, CutsTimeAtTheWindowButCountsATurnWhereItEnds) {
  const std::vector<Turn> turns = {{0, 10, 30, 0, 1}, {0, 40, 60, 0, 2}};
  const ThreadTime first = TimeOf(turns, 0, 50);
  const ThreadTime second = TimeOf(turns, 50, 100);
  EXPECT_EQ(first.running_ns, 30);
  EXPECT_EQ(second.running_ns, 10);
  EXPECT_EQ(first.slices, 1u);
  EXPECT_EQ(second.slices, 1u);
}

TEST(ThreadTime, AHoleInSeqIsWhatIsMissing) {
  EXPECT_EQ(TimeOf({{0, 10, 20, 0, 5}, {0, 30, 40, 0, 6}, {0, 50, 60, 0, 9}}, 0, 100).seq_holes, 2u);
}

TEST(ThreadTime, SeqMayWrap) {
  EXPECT_EQ(TimeOf({{0, 10, 20, 0, 0xFFFFFFFF}, {0, 30, 40, 0, 0}, {0, 50, 60, 0, 1}}, 0, 100).seq_holes, 0u);
}

TEST(ThreadTime, OrderOfRowsDoesNotMatter) {
  const ThreadTime time = TimeOf({{0, 50, 60, 0, 9}, {0, 10, 20, 0, 5}, {7, 30, 40, kPreempted, 6}}, 0, 100);
  EXPECT_EQ(time.seq_holes, 2u);
  EXPECT_EQ(time.preempted, 1u);
  EXPECT_EQ(time.max_wait_ns, 7);
  EXPECT_EQ(time.first.ns, 10);
  EXPECT_EQ(time.last.ns, 60);
}

/// A random life: sleeps, waits and turns follow each other; some turns are lost.
std::vector<Turn> RandomLife(std::mt19937& random, uint64_t* lost_inside) {
  std::vector<Turn> turns;
  int64_t now = static_cast<int64_t>(random() % 20);
  int64_t seq = static_cast<int64_t>(random() % 1000);
  uint64_t pending_lost = 0;
  for (int i = static_cast<int>(random() % 15); i > 0; --i) {
    const auto wait = static_cast<int64_t>(random() % 6);
    now += static_cast<int64_t>(random() % 8) + wait;
    const int64_t on = now;
    now += 1 + static_cast<int64_t>(random() % 9);
    ++seq;
    if (random() % 5 == 0) {
      ++pending_lost;
      continue;
    }
    if (!turns.empty()) *lost_inside += pending_lost;
    pending_lost = 0;
    turns.push_back({wait, on, now, 0, seq});
  }
  return turns;
}

TEST(ThreadTime, AgreesWithCountingEveryNanosecond) {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    uint64_t lost = 0;
    std::vector<Turn> turns = RandomLife(random, &lost);
    const int64_t begin = static_cast<int64_t>(random() % 100);
    const int64_t end = begin + static_cast<int64_t>(random() % 100);
    int64_t running = 0;
    int64_t runnable = 0;
    for (int64_t t = begin; t < end; ++t) {
      for (const Turn& turn : turns) {
        running += turn.on <= t && t < turn.off ? 1 : 0;
        runnable += turn.on - turn.wait <= t && t < turn.on ? 1 : 0;
      }
    }
    std::shuffle(turns.begin(), turns.end(), random);
    const ThreadTime time = TimeOf(turns, begin, end);
    ASSERT_EQ(time.running_ns, running) << "round " << round;
    ASSERT_EQ(time.runnable_ns, runnable) << "round " << round;
    ASSERT_EQ(TimeOf(turns, 0, 1000).seq_holes, lost) << "round " << round;
  }
}

TEST(ThreadTime, WindowsThatTileAddUpToTheWhole) {
  std::mt19937 random(13);
  for (int round = 0; round < 500; ++round) {
    uint64_t lost = 0;
    const std::vector<Turn> turns = RandomLife(random, &lost);
    const ThreadTime whole = TimeOf(turns, 0, 400);
    ThreadTime sum;
    for (int64_t begin = 0; begin < 400; begin += 25) {
      const ThreadTime part = TimeOf(turns, begin, begin + 25);
      sum.running_ns += part.running_ns;
      sum.runnable_ns += part.runnable_ns;
      sum.exec_ns += part.exec_ns;
      sum.rq_wait_ns += part.rq_wait_ns;
      sum.slices += part.slices;
    }
    ASSERT_EQ(sum.running_ns, whole.running_ns);
    ASSERT_EQ(sum.runnable_ns, whole.runnable_ns);
    ASSERT_EQ(sum.exec_ns, whole.exec_ns);
    ASSERT_EQ(sum.rq_wait_ns, whole.rq_wait_ns);
    ASSERT_EQ(sum.slices, whole.slices);
  }
}

}  // namespace
}  // namespace stepscope
