// SPDX-License-Identifier: Apache-2.0
#include "analysis/wait_episode.h"

#include <algorithm>

namespace stepscope {
namespace {

bool IsSameThing(const WaitEpisode& episode, const Gap& gap) {
  if (gap.cause != episode.cause || gap.cause == WaitCause::kNotRecorded) return false;
  if (gap.cause == WaitCause::kGil) return true;
  if (gap.syscall != episode.syscall) return false;
  if (gap.cause != WaitCause::kLock) return gap.arg0 == episode.low;
  return std::max(episode.high, gap.arg0) - std::min(episode.low, gap.arg0) <= kLockSpanBytes;
}

WaitEpisode Opened(const Gap& gap, size_t index) {
  WaitEpisode episode;
  episode.begin = gap.off;
  episode.cause = gap.cause;
  episode.syscall = gap.syscall;
  episode.low = episode.high = gap.arg0;
  episode.first_gap = index;
  return episode;
}

void Extend(WaitEpisode& episode, const Gap& gap, size_t index) {
  episode.end = gap.ready;
  episode.low = std::min(episode.low, gap.arg0);
  episode.high = std::max(episode.high, gap.arg0);
  episode.asleep_ns += gap.asleep_ns();
  episode.last_gap = index;
  ++episode.sleeps;
  episode.timeouts += gap.ended_by == WakerKind::kTimer ? 1 : 0;
  episode.waker = gap.waker;
  episode.ended_by = gap.ended_by;
}

}  // namespace

std::vector<WaitEpisode> EpisodesOf(std::span<const Gap> gaps) {
  std::vector<WaitEpisode> episodes;
  bool open = false;
  int64_t ran_ns = 0;  // since the last sleep: time lost to preemption in between is not running
  for (size_t i = 0; i < gaps.size(); ++i) {
    const Gap& gap = gaps[i];
    ran_ns += gap.ran_before_ns;
    if (!IsAsleep(gap.cause)) continue;
    if (!open || ran_ns >= kBurstNs || !IsSameThing(episodes.back(), gap)) episodes.push_back(Opened(gap, i));
    Extend(episodes.back(), gap, i);
    open = gap.ended_by == WakerKind::kTimer;
    ran_ns = 0;
  }
  return episodes;
}

}  // namespace stepscope
