// SPDX-License-Identifier: Apache-2.0
// WaitEpisode: one wait as its thread meant it. Waiting with a time-out for the same thing again and again (the GIL every 5 ms,
// an event loop every 10 ms) is one wait: consecutive sleeps of the same (call, lock or descriptor) that ended by timer, with
// less than 200 us of running between them. A real wake closes it.
//
// A lock is not one address: a pthread condition alternates between words, so futex words that lie at most 48 bytes apart in one
// episode are one lock; the GIL is a range.
#pragma once

#include <span>
#include <vector>

#include "analysis/wait_cause.h"

namespace stepscope {

constexpr int64_t kBurstNs = 200'000;
constexpr uint64_t kLockSpanBytes = 48;

struct WaitEpisode {
  NodeTime begin;  ///< went to sleep
  NodeTime end;    ///< last woken
  WaitCause cause = WaitCause::kOther;
  int16_t syscall = -1;
  uint64_t low = 0;  ///< lowest and highest arg0 (futex word, descriptor) seen
  uint64_t high = 0;
  int64_t asleep_ns = 0;  ///< without the running between the sleeps
  size_t first_gap = 0;   ///< into the gaps given, [first_gap, last_gap]; those between that are not asleep are not part of it
  size_t last_gap = 0;
  uint32_t sleeps = 0;
  uint32_t timeouts = 0;  ///< of those, ended by timer
  Tid waker;              ///< of the last sleep
  WakerKind ended_by = WakerKind::kUnknown;
};

/// Episodes of one thread in time order. Each gap that is asleep belongs to exactly one, so their asleep_ns add up.
std::vector<WaitEpisode> EpisodesOf(std::span<const Gap> gaps);

}  // namespace stepscope
