// SPDX-License-Identifier: Apache-2.0
#include "analysis/wait_cause.h"

#include <algorithm>

namespace stepscope {
namespace {

bool IsNetwork(WakerKind kind) { return kind == WakerKind::kNet || kind == WakerKind::kLocalNet; }

WaitCause OfCall(const Turn& turn, bool from_disk, WakerKind ended_by, AddressRange gil, Machine machine) {
  switch (CallClassOf(turn.syscall, machine)) {
    case CallClass::kFutex:
      return gil.Contains(turn.arg0) ? WaitCause::kGil : WaitCause::kLock;
    case CallClass::kSleep:
      return WaitCause::kSleep;
    case CallClass::kPoll:
      return WaitCause::kPoll;
    case CallClass::kSocket:
      return WaitCause::kSocket;
    case CallClass::kDescriptor:
      if (from_disk) return WaitCause::kDisk;
      return IsNetwork(ended_by) ? WaitCause::kSocket : WaitCause::kPipe;
    case CallClass::kChild:
      return WaitCause::kChild;
    case CallClass::kDisk:
      return WaitCause::kDisk;
    case CallClass::kOther:
      break;
  }
  return from_disk ? WaitCause::kDisk : WaitCause::kOther;
}

}  // namespace

std::string_view WaitCauseText(WaitCause cause) {
  switch (cause) {
    case WaitCause::kRunnable:
      return "runnable";
    case WaitCause::kThrottled:
      return "throttled";
    case WaitCause::kStopped:
      return "stopped";
    case WaitCause::kTraced:
      return "traced";
    case WaitCause::kPageIn:
      return "page in";
    case WaitCause::kFault:
      return "fault";
    case WaitCause::kGil:
      return "gil";
    case WaitCause::kLock:
      return "lock";
    case WaitCause::kSleep:
      return "sleep";
    case WaitCause::kPoll:
      return "poll";
    case WaitCause::kSocket:
      return "socket";
    case WaitCause::kPipe:
      return "pipe";
    case WaitCause::kChild:
      return "child";
    case WaitCause::kDisk:
      return "disk";
    case WaitCause::kOther:
      return "other";
    case WaitCause::kNotRecorded:
      return "not recorded";
    case WaitCause::kEnded:
      return "ended";
  }
  return "other";
}

bool IsAsleep(WaitCause cause) {
  return cause != WaitCause::kRunnable && cause != WaitCause::kThrottled && cause != WaitCause::kEnded;
}

WaitCause CauseOf(const Turn& turn, WakerKind ended_by, AddressRange gil, Machine machine) {
  switch (turn.state) {
    case SliceState::kThrottled:
      return WaitCause::kThrottled;
    case SliceState::kStopped:
      return WaitCause::kStopped;
    case SliceState::kTraced:
      return WaitCause::kTraced;
    case SliceState::kRunnable:
    case SliceState::kPreempted:
      return WaitCause::kRunnable;
    case SliceState::kDead:
      return WaitCause::kEnded;
    case SliceState::kBlocked:
    case SliceState::kBlockedIo:
      break;
  }
  const bool from_disk = turn.state == SliceState::kBlockedIo || ended_by == WakerKind::kDisk;
  if (turn.syscall < 0) return from_disk ? WaitCause::kPageIn : WaitCause::kFault;
  return OfCall(turn, from_disk, ended_by, gil, machine);
}

std::vector<Gap> GapsOf(std::span<const Turn> turns, AddressRange gil, Machine machine) {
  std::vector<Gap> gaps;
  for (size_t i = 0; i + 1 < turns.size(); ++i) {
    const Turn& turn = turns[i];
    const Turn& next = turns[i + 1];
    Gap gap;
    gap.off = turn.off;
    gap.on = std::max(next.on, turn.off);
    gap.ready = std::clamp(NodeTime{next.on.ns - next.wait_ns}, gap.off, gap.on);
    gap.ran_before_ns = turn.off - turn.on;
    if (turn.state == SliceState::kDead) {
      gap.cause = WaitCause::kEnded;  // the next turn is of another thread with the same id
    } else if (next.seq != turn.seq + 1) {
      gap.cause = WaitCause::kNotRecorded;
    } else {
      gap.cause = CauseOf(turn, next.waker_kind, gil, machine);
      gap.syscall = turn.syscall;
      gap.arg0 = turn.arg0;
      gap.waker = next.waker;
      gap.ended_by = next.waker_kind;
    }
    gaps.push_back(gap);
  }
  return gaps;
}

}  // namespace stepscope
