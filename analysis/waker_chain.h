// SPDX-License-Identifier: Apache-2.0
// WakerChain: why a wait ended, followed from thread to thread. The thread that ended it mostly waited itself meanwhile: for what
// it waited longest, who ended that last, and so on for at most eight threads, until something that is no thread's doing (timer,
// disk, network), or a thread that was busy. Time-outs of a periodic wait (an event loop's 10 ms) end nothing and are passed
// over.
#pragma once

#include <string_view>
#include <vector>

#include "analysis/run_history.h"

namespace stepscope {

constexpr size_t kMostHops = 8;

enum class ChainEnd : uint8_t {
  kRunning,   ///< the last thread was on a CPU
  kRunnable,  ///< the last thread waited for a CPU
  kBlocked,   ///< the last thread slept, holding the lock
  kTimer,     ///< a timer: a time-out, or a sleep the thread asked for
  kDisk,
  kNetwork,  ///< a packet from elsewhere
  kInterrupt,
  kOutside,      ///< woken by a thread that is not recorded
  kUnknown,      ///< the wake was not seen, or the thread's rows are missing
  kCycle,        ///< the chain came back to a thread it had passed
  kNotFollowed,  ///< the chain goes on, beyond the threads asked for
};
/// "running", "timer", …
std::string_view ChainEndText(ChainEnd end);

/// A thread the chain passes, and what it did longest while the one before it waited.
struct ChainHop {
  uint32_t lane = 0;
  bool asleep = false;  ///< false: running or runnable; cause and syscall mean nothing
  WaitCause cause = WaitCause::kOther;
  int16_t syscall = -1;
};

struct WakerChain {
  std::vector<ChainHop> hops;  ///< in the order followed; the first is the direct waker. Empty if no thread ended the wait
  ChainEnd end = ChainEnd::kUnknown;
};

WakerChain FollowWakers(const RunHistory& history, const ThreadHistory& waiter, const WaitEpisode& episode,
                        size_t most_hops = kMostHops);

}  // namespace stepscope
