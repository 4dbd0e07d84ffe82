// SPDX-License-Identifier: Apache-2.0
#include "agent/core/fork_guard.h"

#include "agent/core/clock_reading.h"
#include "agent/core/kernel_call.h"

namespace stepscope::agent {

bool ForkGuard::Arm() {
  constexpr long kPageBytes = 4096;
  constexpr long kAdviseWipeOnFork = 18;
  void* page = MapPrivate(kPageBytes);
  if (page == nullptr) return false;
  if (IsError(KernelCall(SYS_madvise, PointerArgument(page), kPageBytes, kAdviseWipeOnFork))) {
    KernelCall(SYS_munmap, PointerArgument(page), kPageBytes);
    return false;
  }
  word_ = static_cast<const uint64_t*>(page);
  Renew();
  return true;
}

void ForkGuard::Renew() {
  uint64_t token = 0;
  if (!RandomBytes(&token, sizeof(token))) token = ClockNs(CLOCK_MONOTONIC) ^ static_cast<uint64_t>(ProcessId()) << 40;
  __atomic_store_n(const_cast<uint64_t*>(word_), token | 1ull << 63, __ATOMIC_RELEASE);
}

}  // namespace stepscope::agent
