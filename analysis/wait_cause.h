// SPDX-License-Identifier: Apache-2.0
// Why a thread was off its CPU between two turns: one cause per gap, decided from the end of the turn before it (state, system
// call, first argument) and from who ended it. The order of the tests matters: a throttled thread may stand in any call, a
// stopped one keeps the call it was interrupted in, and a fault has no call at all.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "analysis/system_call.h"
#include "analysis/thread_turns.h"
#include "trace/address_range.h"

namespace stepscope {

enum class WaitCause : uint8_t {
  kRunnable,   ///< lost the CPU and wanted to go on: not asleep
  kThrottled,  ///< cgroup quota used up: runnable in the kernel's books, yet not allowed to run
  kStopped,    ///< SIGSTOP
  kTraced,     ///< by a debugger
  kPageIn,     ///< page fault that read from disk
  kFault,      ///< other sleep outside any call
  kGil,        ///< the Python interpreter's lock
  kLock,       ///< any other futex: lock, condition, event, join
  kSleep,      ///< asked to sleep
  kPoll,       ///< poll, select, epoll
  kSocket,
  kPipe,   ///< read or write of something that is neither disk nor network
  kChild,  ///< wait for a process to end
  kDisk,
  kOther,        ///< another call, see its number
  kNotRecorded,  ///< rows are missing in between (hole in seq)
  kEnded,        ///< the thread did not exist
};
/// "gil", "lock", "page in", …
std::string_view WaitCauseText(WaitCause cause);
/// Whether the thread sleeps meanwhile. False for kRunnable, kThrottled and kEnded.
bool IsAsleep(WaitCause cause);

/// Time between two consecutive turns of one thread: asleep in [off, ready), runnable in [ready, on).
struct Gap {
  NodeTime off;
  NodeTime ready;
  NodeTime on;
  WaitCause cause = WaitCause::kOther;
  int16_t syscall = -1;
  uint64_t arg0 = 0;
  Tid waker;  ///< who ended it; 0 = not a task
  WakerKind ended_by = WakerKind::kUnknown;
  int64_t ran_before_ns = 0;  ///< length of the turn before `off`

  int64_t asleep_ns() const { return ready - off; }
};

/// Cause of the gap behind `turn`, which `ended_by` ended. `gil`: of the thread's process, empty if not known.
WaitCause CauseOf(const Turn& turn, WakerKind ended_by, AddressRange gil, Machine machine);
/// The gaps between `turns` (in order): one fewer than turns.
std::vector<Gap> GapsOf(std::span<const Turn> turns, AddressRange gil, Machine machine);

}  // namespace stepscope
