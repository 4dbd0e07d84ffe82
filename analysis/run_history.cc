// SPDX-License-Identifier: Apache-2.0
#include "analysis/run_history.h"

#include <algorithm>

namespace stepscope {
namespace {

bool IsSameThing(const SleepShare& share, const Gap& gap) {
  if (share.cause != gap.cause) return false;
  if (gap.cause == WaitCause::kGil) return true;
  if (share.syscall != gap.syscall) return false;
  if (gap.cause != WaitCause::kLock) return share.arg0 == gap.arg0;
  return std::max(share.arg0, gap.arg0) - std::min(share.arg0, gap.arg0) <= kLockSpanBytes;
}

SleepShare& ShareOf(std::vector<SleepShare>& shares, const Gap& gap) {
  for (SleepShare& share : shares) {
    if (IsSameThing(share, gap)) return share;
  }
  return shares.emplace_back(SleepShare{gap.cause, gap.syscall, gap.arg0, 0, nullptr});
}

int64_t RunningIn(std::span<const Turn> turns, TimeRange range) {
  auto turn = std::partition_point(turns.begin(), turns.end(), [&](const Turn& t) { return t.off <= range.begin; });
  int64_t running_ns = 0;
  for (; turn != turns.end() && turn->on < range.end; ++turn) running_ns += range.Clip(turn->on.ns, turn->off.ns);
  return running_ns;
}

}  // namespace

std::span<const Gap> ThreadHistory::GapsIn(NodeTime begin, NodeTime end) const {
  const auto first = std::partition_point(gaps.begin(), gaps.end(), [&](const Gap& g) { return g.on <= begin; });
  const auto last = std::partition_point(first, gaps.end(), [&](const Gap& g) { return g.off < end; });
  return {first, last};
}

RunHistory::RunHistory(const ThreadTurns& turns, const std::function<ThreadFact(uint32_t lane)>& fact_of, Machine machine) {
  for (const auto& [lane, of_lane] : turns.lanes()) {
    ThreadHistory& thread = threads_[lane];
    thread.lane = lane;
    thread.fact = fact_of(lane);
    thread.turns = of_lane;
    thread.gaps = GapsOf(of_lane, thread.fact.gil, machine);
    thread.episodes = EpisodesOf(thread.gaps);
    lanes_of_tid_.emplace(thread.fact.tid, lane);
  }
}

const ThreadHistory* RunHistory::FindByTid(Tid tid, NodeTime at) const {
  const auto [begin, end] = lanes_of_tid_.equal_range(tid);
  for (auto it = begin; it != end; ++it) {
    const ThreadHistory& thread = threads_.at(it->second);
    if (thread.turns.front().on <= at && at <= thread.turns.back().off) return &thread;
  }
  return nullptr;
}

std::vector<const ThreadHistory*> RunHistory::OfProcess(int64_t process) const {
  std::vector<const ThreadHistory*> threads;
  for (const auto& [lane, thread] : threads_) {
    if (thread.fact.process == process) threads.push_back(&thread);
  }
  return threads;
}

const SleepShare* ThreadActivity::LongestSleep() const {
  const auto longest = std::max_element(sleeps.begin(), sleeps.end(), [](const auto& a, const auto& b) { return a.ns < b.ns; });
  return longest == sleeps.end() ? nullptr : &*longest;
}

ThreadActivity ActivityOf(const ThreadHistory& thread, TimeRange range) {
  ThreadActivity activity;
  activity.running_ns = RunningIn(thread.turns, range);
  int64_t known_ns = activity.running_ns;
  for (const Gap& gap : thread.GapsIn(range.begin, range.end)) {
    if (gap.cause == WaitCause::kNotRecorded || gap.cause == WaitCause::kEnded) continue;
    const int64_t asleep_ns = range.Clip(gap.off.ns, gap.ready.ns);
    const int64_t runnable_ns = range.Clip(gap.ready.ns, gap.on.ns);
    known_ns += asleep_ns + runnable_ns;
    activity.runnable_ns += runnable_ns;
    if (!IsAsleep(gap.cause)) {
      activity.runnable_ns += asleep_ns;
      continue;
    }
    if (gap.ready <= range.begin || gap.off >= range.end) continue;
    SleepShare& share = ShareOf(activity.sleeps, gap);
    share.ns += asleep_ns;
    if (gap.ended_by != WakerKind::kTimer && gap.ready <= range.end) share.last_wake = &gap;
  }
  activity.unknown_ns = range.ns() - known_ns;
  return activity;
}

}  // namespace stepscope
