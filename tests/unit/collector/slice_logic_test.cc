// SPDX-License-Identifier: Apache-2.0
// The kernel side's state machine (bpf/slice_logic.h) against a fake kernel: each test is one trap the real one has.
#include "bpf/slice_logic.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

constexpr uint32_t kInterruptible = 1;
constexpr uint32_t kStopped = 0x104;
constexpr uint32_t kTraced = 0x108;
constexpr uint32_t kDead = 0x80;

// One thread with the counters a kernel would keep for it.
class FakeThread {
 public:
  FakeThread() { counters_.tid = 42; }

  FakeThread& At(uint64_t now_ns) {
    counters_.now_ns = now_ns;
    return *this;
  }
  FakeThread& Wake(uint32_t waker, uint32_t kind = STEPSCOPE_WAKER_TASK) {
    stepscope_on_wake(&state, counters_.now_ns, waker, kind);
    return *this;
  }
  FakeThread& WakeNew(uint32_t parent) {
    state.is_new = 1;
    return Wake(parent);
  }
  /// `delay_ns` of run_delay are booked behind the switch-in event, as the kernel does.
  FakeThread& In(uint64_t delay_ns = 0) {
    counters_.clock_ns = counters_.now_ns;
    stepscope_on_switch_in(&state, &counters_);
    return InUnseen(delay_ns);
  }
  FakeThread& InUnseen(uint64_t delay_ns = 0) {
    counters_.run_delay_ns += delay_ns;
    on_ns_ = counters_.now_ns;
    exec_at_on_ns_ = counters_.exec_ns;
    return *this;
  }
  FakeThread& Faults(uint64_t minor, uint64_t major) {
    counters_.min_faults += minor;
    counters_.maj_faults += major;
    return *this;
  }
  stepscope_slice Out(uint32_t state_bits, bool preempted = false, bool lost = false) {
    stepscope_slice slice{};
    counters_.switches++;
    counters_.exec_ns = exec_at_on_ns_ + (counters_.now_ns - on_ns_) + exec_surplus_ns;
    counters_.turn_exec_ns = counters_.exec_ns - exec_at_on_ns_;
    counters_.clock_ns = counters_.now_ns + clock_surplus_ns;
    counters_.state = state_bits;
    counters_.is_preempted = preempted;
    if (state.on_ns == 0) stepscope_heal(&state, &counters_);
    stepscope_on_switch_out(&state, &counters_, lost ? nullptr : &slice);
    return slice;
  }

  stepscope_thread_state state{};
  uint64_t exec_surplus_ns = 0;   ///< the kernel's clock began before the turn (idle wake-up)
  uint64_t clock_surplus_ns = 0;  ///< time the hypervisor took
  stepscope_task_counters counters_{};

 private:
  uint64_t on_ns_ = 0;
  uint64_t exec_at_on_ns_ = 0;
};

TEST(SliceLogic, ATurnAfterASleepHasItsWaitAndWaker) {
  FakeThread t;
  t.At(1000).In().At(2000).Out(kInterruptible);
  stepscope_slice slice = t.At(5000).Wake(7).At(5600).In(600).At(6000).Out(kInterruptible);
  EXPECT_EQ(slice.on_ns, 5600u);
  EXPECT_EQ(slice.off_ns, 6000u);
  EXPECT_EQ(slice.wait_ns, 600u);
  EXPECT_EQ(slice.waker, 7u);
  EXPECT_EQ(slice.waker_kind, STEPSCOPE_WAKER_TASK);
  EXPECT_EQ(slice.rq_wait_ns, 600u);
  EXPECT_EQ(slice.seq, 2u);
  EXPECT_EQ(slice.tid, 42u);
  EXPECT_EQ(stepscope_slice_exec_ns(&slice), 400);
}

TEST(SliceLogic, AWakeSeenBeforeTheSwitchOutOfItsSleepIsKept) {
  FakeThread t;
  t.At(1000).In().At(1900).Wake(7).At(2000).Out(kInterruptible);
  stepscope_slice slice = t.At(2300).In().At(3000).Out(kInterruptible);
  EXPECT_EQ(slice.waker, 7u);
  EXPECT_EQ(slice.wait_ns, 300u) << "the wait begins at the switch-out, not at the earlier wake";
}

TEST(SliceLogic, AWakeOfAThreadThatStayedRunnableIsNotItsWaker) {
  FakeThread t;
  t.At(1000).In().At(1900).Wake(7).At(2000).Out(/*state=*/0);
  stepscope_slice slice = t.At(2500).In().At(3000).Out(kInterruptible);
  EXPECT_EQ(slice.waker, 0u);
  EXPECT_EQ(slice.waker_kind, STEPSCOPE_WAKER_NONE);
  EXPECT_EQ(slice.wait_ns, 500u);
  slice = t.At(9000).In().At(9100).Out(kInterruptible);
  EXPECT_EQ(slice.waker_kind, STEPSCOPE_WAKER_UNKNOWN) << "the stale wake must not end the next sleep";
  EXPECT_EQ(slice.wait_ns, 0u);
}

TEST(SliceLogic, AWakeWhileQueuedIsIgnored) {
  FakeThread t;
  t.At(1000).In().At(2000).Out(kInterruptible, /*preempted=*/true);
  stepscope_slice slice = t.At(2200).Wake(7).At(2500).In().At(3000).Out(kInterruptible);
  EXPECT_EQ(slice.waker, 0u);
  EXPECT_EQ(slice.wait_ns, 500u);
}

TEST(SliceLogic, TheEndOfATurnIsNamed) {
  FakeThread t;
  EXPECT_EQ(t.At(1).In().At(2).Out(kInterruptible).state, STEPSCOPE_STATE_BLOCKED);
  EXPECT_EQ(t.At(3).In().At(4).Out(0).state, STEPSCOPE_STATE_RUNNABLE);
  EXPECT_EQ(t.At(5).In().At(6).Out(kInterruptible, true).state, STEPSCOPE_STATE_PREEMPTED) << "preempted in mid-sleep";
  EXPECT_EQ(t.At(7).In().At(8).Out(kStopped).state, STEPSCOPE_STATE_STOPPED);
  EXPECT_EQ(t.At(9).In().At(10).Out(kTraced).state, STEPSCOPE_STATE_TRACED);
  t.counters_.is_in_iowait = 1;
  EXPECT_EQ(t.At(11).In().At(12).Out(2).state, STEPSCOPE_STATE_BLOCKED_IO);
  t.counters_.is_throttled = 1;
  EXPECT_EQ(t.At(13).In().At(14).Out(2).state, STEPSCOPE_STATE_BLOCKED_IO) << "a sleeper under quota is not throttled";
  EXPECT_EQ(t.At(15).In().At(16).Out(0).state, STEPSCOPE_STATE_THROTTLED);
  EXPECT_EQ(t.At(16).In().At(17).Out(0, true).state, STEPSCOPE_STATE_THROTTLED) << "a quota that ends inside the kernel preempts";
  EXPECT_EQ(t.At(17).In().At(18).Out(kDead).state, STEPSCOPE_STATE_DEAD);
}

TEST(SliceLogic, AnUnseenSwitchInIsRebuiltFromTheKernelsBooks) {
  FakeThread t;
  t.At(1000).In().At(2000).Out(kInterruptible);
  stepscope_slice slice = t.At(5000).Wake(7).At(5600).InUnseen(600).At(6000).Out(kInterruptible);
  EXPECT_EQ(slice.flags, STEPSCOPE_SLICE_HEALED);
  EXPECT_EQ(slice.on_ns, 5600u);
  EXPECT_EQ(slice.wait_ns, 600u);
  EXPECT_EQ(slice.waker_kind, STEPSCOPE_WAKER_UNKNOWN);
  slice = t.At(7000).In().At(7100).Out(kInterruptible);
  EXPECT_EQ(slice.waker_kind, STEPSCOPE_WAKER_UNKNOWN) << "the wake of the healed turn was used again";
}

TEST(SliceLogic, HealingKeepsTheWakeThatCameForTheSleepNowBeginning) {
  FakeThread t;
  t.At(1000).In().At(2000).Out(kInterruptible);
  t.At(5600).InUnseen().At(5900).Wake(9).At(6000).Out(kInterruptible);
  stepscope_slice slice = t.At(6100).In().At(6200).Out(kInterruptible);
  EXPECT_EQ(slice.waker, 9u);
}

TEST(SliceLogic, AHealedTurnDoesNotReachIntoTheOneBefore) {
  FakeThread t;
  t.At(1000).In().At(2000).Out(kInterruptible);
  t.exec_surplus_ns = 300;
  stepscope_slice slice = t.At(2100).InUnseen(500).At(2200).Out(kInterruptible);
  EXPECT_EQ(slice.on_ns, 2000u);
  EXPECT_EQ(slice.wait_ns, 0u);
  EXPECT_EQ(stepscope_slice_exec_ns(&slice), 400);
}

TEST(SliceLogic, AThreadFirstMetAtItsSwitchOutStartsFromThisTurnAlone) {
  FakeThread t;
  t.counters_.exec_ns = 1'000'000'000;
  t.counters_.run_delay_ns = 5'000'000;
  t.counters_.switches = 500;
  t.At(10'000).InUnseen().At(12'000);
  stepscope_slice slice = t.Out(kInterruptible);
  EXPECT_EQ(slice.on_ns, 10'000u);
  EXPECT_EQ(stepscope_slice_exec_ns(&slice), 2000);
  EXPECT_EQ(slice.rq_wait_ns, 0u);
  EXPECT_EQ(t.state.switches_before, 500u);
}

TEST(SliceLogic, ALostRecordsShareIsInTheNextOne) {
  FakeThread t;
  t.At(1000).In(10).At(2000).Faults(3, 1).Out(kInterruptible);
  t.At(3000).In(20).Faults(5, 0).At(4000).Out(kInterruptible, false, /*lost=*/true);
  stepscope_slice slice = t.At(5000).In(30).Faults(7, 2).At(5500).Out(kInterruptible);
  EXPECT_EQ(stepscope_slice_exec_ns(&slice), 1500);
  EXPECT_EQ(slice.rq_wait_ns, 50u);
  EXPECT_EQ(slice.min_faults, 12u);
  EXPECT_EQ(slice.maj_faults, 2u);
  EXPECT_EQ(slice.seq, 3u);
  EXPECT_EQ(slice.on_ns, 5000u) << "times are of this turn alone";
}

TEST(SliceLogic, WhatDoesNotFitIsCarried) {
  FakeThread t;
  t.At(1000).In().At(2000).Out(kInterruptible);
  stepscope_slice slice = t.At(3000).In(0x1'0000'0005).Faults(70'000, 300).At(4000).Out(kInterruptible);
  EXPECT_EQ(slice.flags, STEPSCOPE_SLICE_CARRY);
  EXPECT_EQ(slice.rq_wait_ns, UINT32_MAX);
  EXPECT_EQ(slice.min_faults, UINT16_MAX);
  EXPECT_EQ(slice.maj_faults, UINT8_MAX);
  slice = t.At(5000).In().At(6000).Out(kInterruptible);
  EXPECT_EQ(slice.flags, 0u);
  EXPECT_EQ(slice.rq_wait_ns, 6u);
  EXPECT_EQ(slice.min_faults, 70'000u - UINT16_MAX);
  EXPECT_EQ(slice.maj_faults, 300u - UINT8_MAX);
}

TEST(SliceLogic, ALongTurnNeedsNoCarry) {
  FakeThread t;
  stepscope_slice slice = t.At(1000).In().At(1000 + 60'000'000'000).Out(0);
  EXPECT_EQ(slice.flags, 0u);
  EXPECT_EQ(stepscope_slice_exec_ns(&slice), 60'000'000'000);
}

TEST(SliceLogic, StolenTimeIsTheQueueClockBeyondExec) {
  FakeThread t;
  t.clock_surplus_ns = 70;
  EXPECT_EQ(t.At(1000).In().At(2000).Out(0).stolen_ns, 70u);
  t.clock_surplus_ns = 0;
  t.exec_surplus_ns = 9000;
  EXPECT_EQ(t.At(3000).In().At(4000).Out(0).stolen_ns, 0u) << "exec larger than the turn is an idle wake-up, not theft";
}

TEST(SliceLogic, OnlyTheFirstTurnIsFirst) {
  FakeThread t;
  stepscope_slice slice = t.At(100).WakeNew(7).At(150).In(50).At(200).Out(kInterruptible);
  EXPECT_EQ(slice.flags, STEPSCOPE_SLICE_FIRST);
  EXPECT_EQ(slice.wait_ns, 50u);
  EXPECT_EQ(slice.waker, 7u);
  EXPECT_EQ(slice.seq, 1u);
  EXPECT_EQ(t.At(300).In().At(400).Out(kInterruptible).flags, 0u);
}

}  // namespace
}  // namespace stepscope
