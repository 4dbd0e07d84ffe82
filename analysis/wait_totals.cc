// SPDX-License-Identifier: Apache-2.0
#include "analysis/wait_totals.h"

#include <algorithm>
#include <optional>

namespace stepscope {
namespace {

void Count(WaitSum& sum, int64_t ns, const WaitEpisode& episode) {
  sum.ns += ns;
  ++sum.count;
  sum.timeouts += episode.timeouts;
  sum.max_ns = std::max(sum.max_ns, ns);
}

WaitKey KeyOf(const RunHistory& history, const ThreadHistory& thread, const WaitEpisode& episode) {
  WaitKey key;
  key.cause = episode.cause;
  key.syscall = episode.syscall;
  if (episode.cause == WaitCause::kNotRecorded) return key;
  const size_t most_hops = episode.asleep_ns < kFollowFromNs ? 1 : kMostHops;
  const WakerChain chain = FollowWakers(history, thread, episode, most_hops);
  key.end = chain.end;
  if (chain.hops.empty()) {
    if (chain.end == ChainEnd::kOutside) key.peer_tid = episode.waker;
    return key;
  }
  key.peer_lane = chain.hops.front().lane;
  key.root_lane = chain.hops.back().lane;
  key.root_asleep = chain.hops.back().asleep;
  key.root_cause = chain.hops.back().cause;
  key.root_syscall = chain.hops.back().syscall;
  return key;
}

/// What the holder did is where a wait for the GIL ends.
WaitKey KeyOfHolder(const ThreadHistory& holder, const HeldTime& held) {
  WaitKey key;
  key.cause = WaitCause::kGil;
  key.peer_lane = key.root_lane = holder.lane;
  const int64_t most_ns = std::max({held.on_cpu_ns, held.runnable_ns, held.blocked_ns, held.unknown_ns});
  if (held.unknown_ns == most_ns) return key;
  key.end = held.on_cpu_ns == most_ns ? ChainEnd::kRunning : ChainEnd::kRunnable;
  if (held.blocked_ns != most_ns) return key;
  key.end = ChainEnd::kBlocked;
  key.root_asleep = true;
  key.root_cause = held.blocked_cause;
  key.root_syscall = held.blocked_syscall;
  return key;
}

}  // namespace

void WaitSum::Merge(const WaitSum& other) {
  ns += other.ns;
  count += other.count;
  timeouts += other.timeouts;
  max_ns = std::max(max_ns, other.max_ns);
}

void WaitTotals::Add(const RunHistory& history) {
  std::map<int64_t, std::optional<LockHolders>> holders;
  for (const auto& [lane, thread] : history.threads()) {
    AddThrottled(thread);
    for (const WaitEpisode& episode : thread.episodes) {
      if (episode.cause != WaitCause::kGil) {
        AddEpisode(history, thread, episode);
        continue;
      }
      auto& of_process = holders[thread.fact.process];
      if (!of_process) of_process.emplace(history.OfProcess(thread.fact.process));
      AddGilWait(history, *of_process, thread, episode);
    }
  }
}

void WaitTotals::AddThrottled(const ThreadHistory& thread) {
  WaitKey key;
  key.cause = WaitCause::kThrottled;
  for (const Gap& gap : thread.gaps) {
    const int64_t ns = gap.cause == WaitCause::kThrottled ? window_.Clip(gap.off.ns, gap.on.ns) : 0;
    if (ns > 0) Count(threads_[thread.lane][key], ns, {});
  }
}

int64_t WaitTotals::AsleepNs(const ThreadHistory& thread, const WaitEpisode& episode) const {
  int64_t asleep_ns = 0;
  for (size_t i = episode.first_gap; i <= episode.last_gap; ++i) {
    const Gap& gap = thread.gaps[i];
    if (IsAsleep(gap.cause)) asleep_ns += window_.Clip(gap.off.ns, gap.ready.ns);
  }
  return asleep_ns;
}

void WaitTotals::AddEpisode(const RunHistory& history, const ThreadHistory& thread, const WaitEpisode& episode) {
  const int64_t ns = AsleepNs(thread, episode);
  if (ns > 0) Count(threads_[thread.lane][KeyOf(history, thread, episode)], ns, episode);
}

void WaitTotals::AddGilWait(const RunHistory& history, const LockHolders& holders, const ThreadHistory& thread,
                            const WaitEpisode& episode) {
  std::map<uint32_t, int64_t> ns_of;
  std::vector<Hold> holds;
  for (size_t i = episode.first_gap; i <= episode.last_gap; ++i) {
    const Gap& gap = thread.gaps[i];
    if (!IsAsleep(gap.cause)) continue;
    for (const Hold& hold : holders.Of(thread.lane, gap.off, gap.ready)) {
      const int64_t ns = window_.Clip(hold.begin.ns, hold.end.ns);
      if (ns > 0) ns_of[hold.holder] += ns;
      holds.push_back(hold);
    }
  }
  const auto longest =
      std::max_element(ns_of.begin(), ns_of.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  for (const auto& part : ns_of) {
    WaitKey key;
    key.cause = WaitCause::kGil;
    if (part.first != 0) key = KeyOfHolder(history.threads().at(part.first), HeldTimeOf(history.threads().at(part.first), holds));
    key.syscall = episode.syscall;
    WaitSum& sum = threads_[thread.lane][key];
    sum.ns += part.second;
    sum.max_ns = std::max(sum.max_ns, part.second);
    if (part.first != longest->first) continue;
    ++sum.count;
    sum.timeouts += episode.timeouts;
  }
}

}  // namespace stepscope
