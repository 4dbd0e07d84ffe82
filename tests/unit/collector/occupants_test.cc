// SPDX-License-Identifier: Apache-2.0
// The kernel side's memory of who held a CPU (bpf/occupants.h) against one that forgets nothing.
#include "bpf/occupants.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <vector>

namespace stepscope {
namespace {

constexpr uint64_t kMs = 1'000'000;

// Both memories of one CPU, fed with the same switches.
class Cpu {
 public:
  /// From now on `tid` is on the CPU, for `ns`.
  Cpu& Run(uint32_t tid, uint64_t ns) {
    if (!turns_.empty() && stepscope_missed_switch(&history_, turns_.back().tid)) {
      const uint64_t exec_ns = counts_exec ? now_ns_ - turns_.back().on_ns : 0;
      stepscope_mend_turns(&history_, now_ns_, turns_.back().tid, turns_.back().tid / 100, exec_ns);
    }
    stepscope_note_turn(&history_, now_ns_, tid, tid / 100);
    turns_.push_back({now_ns_, tid});
    now_ns_ += ns;
    return *this;
  }
  /// A switch that the kernel side did not see.
  Cpu& RunUnseen(uint32_t tid, uint64_t ns) {
    turns_.push_back({now_ns_, tid});
    now_ns_ += ns;
    return *this;
  }
  bool counts_exec = true;

  stepscope_wait Walk(uint64_t wait_ns) const {
    stepscope_wait wait{};
    wait.start_ns = now_ns_ - wait_ns;
    wait.time_ns = now_ns_;
    stepscope_add_occupants(&wait, &history_, wait.start_ns, wait.time_ns);
    return wait;
  }
  std::map<uint32_t, uint64_t> Truth(uint64_t wait_ns) const {
    std::map<uint32_t, uint64_t> held;
    uint64_t end = now_ns_;
    for (size_t i = turns_.size(); i-- > 0 && end > now_ns_ - wait_ns;) {
      const uint64_t start = std::max(turns_[i].on_ns, now_ns_ - wait_ns);
      held[turns_[i].tid] += end - start;
      end = start;
    }
    return held;
  }

 private:
  struct Turn {
    uint64_t on_ns;
    uint32_t tid;
  };
  uint64_t now_ns_ = 1'000'000'000 * kMs;  // longer than any wait
  stepscope_cpu_history history_{};
  std::vector<Turn> turns_;
};

std::map<uint32_t, uint64_t> Parts(const stepscope_wait& wait) {
  std::map<uint32_t, uint64_t> parts;
  for (const stepscope_wait_part& part : wait.parts) {
    if (part.ns != 0) parts[part.tid] += part.ns;
  }
  return parts;
}

uint64_t Sum(const stepscope_wait& wait) {
  uint64_t sum = wait.others_ns + wait.unknown_ns;
  for (const stepscope_wait_part& part : wait.parts) sum += part.ns;
  return sum;
}

TEST(Occupants, OneHogTookItAll) {
  const stepscope_wait wait = Cpu().Run(7, 3 * kMs).Run(500, 40 * kMs).Walk(40 * kMs);
  EXPECT_EQ(Parts(wait), (std::map<uint32_t, uint64_t>{{500, 40 * kMs}}));
  EXPECT_EQ(wait.parts[0].tgid, 5u);
}

TEST(Occupants, AnIdleCpuIsAPartOfItsOwn) {
  EXPECT_EQ(Parts(Cpu().Run(7, kMs).Run(0, 30'000).Walk(30'000)), (std::map<uint32_t, uint64_t>{{0, 30'000}}));
}

TEST(Occupants, WhatBeganBeforeTheHistoryIsUnknown) {
  const stepscope_wait wait = Cpu().Run(500, 10 * kMs).Walk(25 * kMs);
  EXPECT_EQ(wait.unknown_ns, 15 * kMs);
  EXPECT_EQ(Sum(wait), 25 * kMs);
}

TEST(Occupants, AnUnseenSwitchIsMendedFromTheKernelsBooks) {
  Cpu cpu;
  cpu.Run(7, kMs).Run(8, 2 * kMs).RunUnseen(9, 3 * kMs).Run(10, kMs);
  EXPECT_EQ(Parts(cpu.Walk(7 * kMs)), cpu.Truth(7 * kMs));
}

TEST(Occupants, ATurnWithAnUnseenSwitchOfUnknownTimeInItIsNobodys) {
  Cpu cpu;
  cpu.counts_exec = false;
  cpu.Run(7, kMs).Run(8, kMs).RunUnseen(9, kMs).Run(10, kMs);
  const stepscope_wait wait = cpu.Walk(4 * kMs);
  EXPECT_EQ(wait.unknown_ns, 2 * kMs) << "thread 9 left, so thread 8's turn had ended somewhere in between";
  EXPECT_EQ(Parts(wait), (std::map<uint32_t, uint64_t>{{7, kMs}, {10, kMs}}));
}

TEST(Occupants, MoreOccupantsThanPartsBecomeOthers) {
  Cpu cpu;
  for (uint32_t tid = 1; tid <= 10; ++tid) cpu.Run(tid, kMs);
  const stepscope_wait wait = cpu.Walk(10 * kMs);
  EXPECT_EQ(Parts(wait).size(), size_t{STEPSCOPE_WAIT_PARTS});
  EXPECT_EQ(wait.others_ns, 4 * kMs);
  EXPECT_EQ(wait.unknown_ns, 0u);
}

TEST(Occupants, StrangersPlayingPingPongAreStillNamed) {
  Cpu cpu;
  for (int i = 0; i < 20'000; ++i) cpu.Run(i % 2 == 0 ? 111 : 112, 2'000);  // 40 ms in turns of 2 µs
  const stepscope_wait wait = cpu.Walk(35 * kMs);
  EXPECT_EQ(wait.unknown_ns, 0u);
  EXPECT_NEAR(static_cast<double>(Parts(wait)[111]), 17.5e6, 0.1e6);
  EXPECT_EQ(Sum(wait), 35 * kMs);
}

TEST(Occupants, PartsSumToTheWaitWhateverHappened) {
  std::mt19937 random(3);
  for (int round = 0; round < 300; ++round) {
    Cpu cpu;
    const uint32_t tids = 1 + random() % 12;
    const uint64_t longest = uint64_t{100} << random() % 20;
    for (uint32_t i = 0, n = 1 + random() % 3'000; i < n; ++i) {
      const uint32_t tid = 1 + random() % tids;
      if (random() % 500 == 0)
        cpu.RunUnseen(tid, random() % longest);
      else
        cpu.Run(tid, random() % longest);
    }
    for (uint64_t wait_ns = 20'000; wait_ns < 100'000 * kMs; wait_ns *= 3) {
      const stepscope_wait wait = cpu.Walk(wait_ns);
      ASSERT_EQ(Sum(wait), wait_ns) << "round " << round;
    }
  }
}

TEST(Occupants, WithinTheLastTurnsEveryPartIsExact) {
  std::mt19937 random(5);
  for (int round = 0; round < 300; ++round) {
    Cpu cpu;
    uint64_t last_turns_ns = 0;
    for (int i = 0; i < 200; ++i) {
      const uint64_t ns = 1 + random() % (2 * kMs);
      cpu.Run(1 + random() % STEPSCOPE_WAIT_PARTS, ns);
      if (i >= 200 - static_cast<int>(STEPSCOPE_TURNS)) last_turns_ns += ns;
    }
    const uint64_t wait_ns = 1 + random() % last_turns_ns;
    ASSERT_EQ(Parts(cpu.Walk(wait_ns)), cpu.Truth(wait_ns)) << "round " << round;
  }
}

TEST(Occupants, BucketsAreOffByLessThanTheOldestOne) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    Cpu cpu;
    for (int i = 0; i < 4'000; ++i) cpu.Run(1 + random() % STEPSCOPE_BUCKET_SLOTS, 1 + random() % 20'000);
    const uint64_t wait_ns = kMs + random() % (30 * kMs);
    const stepscope_wait wait = cpu.Walk(wait_ns);
    auto parts = Parts(wait);
    for (const auto& [tid, ns] : cpu.Truth(wait_ns)) {
      const int64_t error = static_cast<int64_t>(parts[tid]) - static_cast<int64_t>(ns);
      ASSERT_LT(std::abs(error), int64_t{STEPSCOPE_BUCKET_NS}) << "round " << round << " thread " << tid;
    }
    ASSERT_EQ(wait.unknown_ns, 0u);
  }
}

}  // namespace
}  // namespace stepscope
