// SPDX-License-Identifier: Apache-2.0
// The clock of ring records: the cheapest one that the kernel itself trusts. Chosen once per process, before its first record;
// contract/hello.h carries the choice, anchors (contract/ring.h) tie its ticks to CLOCK_MONOTONIC and CLOCK_REALTIME.
#pragma once

#include <stdint.h>
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "contract/hello.h"
#include "contract/ring.h"

namespace stepscope::agent {

inline uint64_t ClockNs(clockid_t clock) {
  timespec now{};
  clock_gettime(clock, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec);
}

class TickClock {
 public:
  // The time stamp counter only if it is the kernel's clock source, never stops, and this thread may read it; the arm64
  // virtual counter; else CLOCK_MONOTONIC.
  void Choose();

  uint64_t Read() const {
#if defined(__x86_64__)
    if (kind_ == STEPSCOPE_CLOCK_TSC) [[likely]]
      return __rdtsc();
#elif defined(__aarch64__)
    if (kind_ == STEPSCOPE_CLOCK_CNTVCT) [[likely]] {
      uint64_t ticks;
      __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
      return ticks;
    }
#endif
    return ClockNs(CLOCK_MONOTONIC);
  }

  uint32_t kind() const { return kind_; }

  // The tightest of several {ticks, monotonic, realtime, ticks} brackets.
  stepscope_record_anchor Anchor() const;

 private:
  uint32_t kind_ = STEPSCOPE_CLOCK_MONOTONIC;
};

}  // namespace stepscope::agent
