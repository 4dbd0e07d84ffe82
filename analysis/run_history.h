// SPDX-License-Identifier: Apache-2.0
// RunHistory: the threads of a run over one stretch of time: turns, the gaps between them, waits. Threads find each other by the
// host tid a wake carries. ActivityOf tells what one of them did during an interval: the question "what did the other thread do
// while I waited" is asked with it.
//
// Thread rule: immutable once built.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <vector>

#include "analysis/wait_episode.h"

namespace stepscope {

struct ThreadFact {
  Tid tid;
  int64_t process = 0;  ///< equal for the threads of one process
  AddressRange gil;     ///< of the process; empty = not known
};

struct ThreadHistory {
  uint32_t lane = 0;
  ThreadFact fact;
  std::span<const Turn> turns;
  std::vector<Gap> gaps;
  std::vector<WaitEpisode> episodes;

  /// Gaps that touch [begin, end).
  std::span<const Gap> GapsIn(NodeTime begin, NodeTime end) const;
};

class RunHistory {
 public:
  /// `turns` must be sorted and outlive this.
  RunHistory(const ThreadTurns& turns, const std::function<ThreadFact(uint32_t lane)>& fact_of, Machine machine);

  const std::map<uint32_t, ThreadHistory>& threads() const { return threads_; }
  /// The thread that had this id at `at`; nullptr for one that was not recorded then. Ids are used again.
  const ThreadHistory* FindByTid(Tid tid, NodeTime at) const;
  std::vector<const ThreadHistory*> OfProcess(int64_t process) const;

 private:
  std::map<uint32_t, ThreadHistory> threads_;
  std::multimap<Tid, uint32_t> lanes_of_tid_;
};

/// Sleeps of one thread for one thing.
struct SleepShare {
  WaitCause cause = WaitCause::kOther;
  int16_t syscall = -1;
  uint64_t arg0 = 0;
  int64_t ns = 0;
  const Gap* last_wake = nullptr;  ///< the last of them that something other than a timer ended; nullptr = timers only
};

/// What a thread did in an interval. The parts add up to its length.
struct ThreadActivity {
  int64_t running_ns = 0;
  int64_t runnable_ns = 0;  ///< throttled included
  int64_t unknown_ns = 0;   ///< before its first or after its last turn, or rows missing
  std::vector<SleepShare> sleeps;

  /// The sleep with the most time; nullptr if there is none.
  const SleepShare* LongestSleep() const;
};
ThreadActivity ActivityOf(const ThreadHistory& thread, TimeRange range);

}  // namespace stepscope
