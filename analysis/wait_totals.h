// SPDX-License-Identifier: Apache-2.0
// WaitTotals: what each thread waited for, how long, and who ended it, over any number of windows. Each window's histories are
// added in time order; a wait that crosses from one window into the next counts once in each. Only sleeps whose end is among the
// rows are in it: one that is still open has no cause yet.
//
// Waits shorter than 100 us name their direct waker and are not followed further.
//
// Thread rule: one thread.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <string_view>

#include "analysis/lock_holder.h"
#include "analysis/waker_chain.h"

namespace stepscope {

constexpr int64_t kFollowFromNs = 100'000;

/// What makes two waits of a thread the same kind of wait.
struct WaitKey {
  WaitCause cause = WaitCause::kOther;
  int16_t syscall = -1;
  uint32_t peer_lane = 0;  ///< who ended it, or for the GIL who held it; 0 = no recorded thread
  Tid peer_tid;            ///< of a waker that is not recorded
  uint32_t root_lane = 0;  ///< last thread of the chain of wakers; 0 = none
  ChainEnd end = ChainEnd::kUnknown;
  bool root_asleep = false;  ///< root_cause and root_syscall say what the root slept in
  WaitCause root_cause = WaitCause::kOther;
  int16_t root_syscall = -1;
  friend auto operator<=>(const WaitKey&, const WaitKey&) = default;
};

struct WaitSum {
  int64_t ns = 0;
  uint64_t count = 0;     ///< waits; one for the GIL counts where it was held longest
  uint64_t timeouts = 0;  ///< time-outs inside them
  int64_t max_ns = 0;
  void Merge(const WaitSum& other);
};

class WaitTotals {
 public:
  /// Sums what lies in `window`.
  explicit WaitTotals(TimeRange window) : window_(window) {}
  void Add(const RunHistory& history);
  /// By lane, then by kind of wait.
  const std::map<uint32_t, std::map<WaitKey, WaitSum>>& threads() const { return threads_; }

 private:
  void AddThrottled(const ThreadHistory& thread);
  void AddEpisode(const RunHistory& history, const ThreadHistory& thread, const WaitEpisode& episode);
  void AddGilWait(const RunHistory& history, const LockHolders& holders, const ThreadHistory& thread, const WaitEpisode& episode);
  int64_t AsleepNs(const ThreadHistory& thread, const WaitEpisode& episode) const;

  TimeRange window_;
  std::map<uint32_t, std::map<WaitKey, WaitSum>> threads_;
};

}  // namespace stepscope
