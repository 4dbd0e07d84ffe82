// SPDX-License-Identifier: Apache-2.0
#include "analysis/waker_chain.h"

#include <algorithm>
#include <optional>

namespace stepscope {
namespace {

struct Wake {
  Tid waker;
  WakerKind kind = WakerKind::kUnknown;
};

/// Where the chain ends if no thread did this wake.
std::optional<ChainEnd> EndWithoutThread(const Wake& wake) {
  switch (wake.kind) {
    case WakerKind::kTask:
    case WakerKind::kLocalNet:
      if (wake.waker.value != 0) return std::nullopt;
      return wake.kind == WakerKind::kTask ? ChainEnd::kUnknown : ChainEnd::kNetwork;
    case WakerKind::kTimer:
      return ChainEnd::kTimer;
    case WakerKind::kDisk:
      return ChainEnd::kDisk;
    case WakerKind::kNet:
      return ChainEnd::kNetwork;
    case WakerKind::kIrq:
      return ChainEnd::kInterrupt;
    case WakerKind::kUnknown:
    case WakerKind::kNone:
      break;
  }
  return ChainEnd::kUnknown;
}

/// Where the chain ends with a thread that spent its time so; nullopt: it slept until somebody woke it.
std::optional<ChainEnd> EndWithThread(const ThreadActivity& activity) {
  const SleepShare* longest = activity.LongestSleep();
  const int64_t asleep_ns = longest == nullptr ? 0 : longest->ns;
  if (activity.unknown_ns > std::max({asleep_ns, activity.running_ns, activity.runnable_ns})) return ChainEnd::kUnknown;
  if (activity.runnable_ns > std::max(asleep_ns, activity.running_ns)) return ChainEnd::kRunnable;
  if (longest == nullptr || activity.running_ns >= asleep_ns) return ChainEnd::kRunning;
  if (longest->cause == WaitCause::kDisk || longest->cause == WaitCause::kPageIn) return ChainEnd::kDisk;
  if (longest->cause == WaitCause::kSleep || longest->last_wake == nullptr) return ChainEnd::kTimer;
  return std::nullopt;
}

ChainHop HopOf(const ThreadHistory& thread, const ThreadActivity& activity, std::optional<ChainEnd> end) {
  const SleepShare* longest = activity.LongestSleep();
  const bool busy = end == ChainEnd::kRunning || end == ChainEnd::kRunnable || end == ChainEnd::kUnknown;
  if (busy || longest == nullptr) return {thread.lane};
  return {thread.lane, true, longest->cause, longest->syscall};
}

bool HasPassed(const WakerChain& chain, const ThreadHistory& waiter, const ThreadHistory& thread) {
  return thread.lane == waiter.lane ||
         std::any_of(chain.hops.begin(), chain.hops.end(), [&](const ChainHop& hop) { return hop.lane == thread.lane; });
}

}  // namespace

std::string_view ChainEndText(ChainEnd end) {
  switch (end) {
    case ChainEnd::kRunning:
      return "running";
    case ChainEnd::kRunnable:
      return "runnable";
    case ChainEnd::kBlocked:
      return "blocked";
    case ChainEnd::kTimer:
      return "timer";
    case ChainEnd::kDisk:
      return "disk";
    case ChainEnd::kNetwork:
      return "network";
    case ChainEnd::kInterrupt:
      return "interrupt";
    case ChainEnd::kOutside:
      return "outside";
    case ChainEnd::kUnknown:
      return "unknown";
    case ChainEnd::kCycle:
      return "cycle";
    case ChainEnd::kNotFollowed:
      return "not followed";
  }
  return "unknown";
}

WakerChain FollowWakers(const RunHistory& history, const ThreadHistory& waiter, const WaitEpisode& episode, size_t most_hops) {
  WakerChain chain;
  Wake wake{episode.waker, episode.ended_by};
  TimeRange range{episode.begin, episode.end};
  while (true) {
    const auto ended = [&](ChainEnd end) {
      chain.end = end;
      return chain;
    };
    if (const auto end = EndWithoutThread(wake)) return ended(*end);
    const ThreadHistory* thread = history.FindByTid(wake.waker, range.end);
    if (thread == nullptr) return ended(ChainEnd::kOutside);
    if (HasPassed(chain, waiter, *thread)) return ended(ChainEnd::kCycle);
    if (chain.hops.size() == most_hops) return ended(ChainEnd::kNotFollowed);
    const ThreadActivity activity = ActivityOf(*thread, range);
    const auto end = EndWithThread(activity);
    chain.hops.push_back(HopOf(*thread, activity, end));
    if (end) return ended(*end);
    const Gap& last = *activity.LongestSleep()->last_wake;
    wake = {last.waker, last.ended_by};
    range.end = last.ready;
  }
}

}  // namespace stepscope
