// SPDX-License-Identifier: Apache-2.0
#include "agent/core/clock_reading.h"

#include <string.h>
#include <sys/prctl.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "agent/core/kernel_call.h"

namespace stepscope::agent {
namespace {

#if defined(__x86_64__)
bool KernelUsesTsc() {
  constexpr char kPath[] = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
  long fd = KernelCall(SYS_openat, AT_FDCWD, PointerArgument(kPath), O_RDONLY | O_CLOEXEC);
  if (IsError(fd)) return false;
  char name[8] = {};
  long got = KernelCall(SYS_read, fd, PointerArgument(name), sizeof(name));
  KernelCall(SYS_close, fd);
  return got == 4 && memcmp(name, "tsc\n", 4) == 0;
}

bool TscNeverStops() {
  unsigned eax, ebx, ecx, edx;
  constexpr unsigned kInvariantTsc = 1u << 8;
  return __get_cpuid(0x80000007u, &eax, &ebx, &ecx, &edx) != 0 && (edx & kInvariantTsc) != 0;
}

bool TscAllowed() {
  int mode = 0;
  return KernelCall(SYS_prctl, PR_GET_TSC, PointerArgument(&mode)) == 0 && mode == PR_TSC_ENABLE;
}
#endif

}  // namespace

void TickClock::Choose() {
#if defined(__x86_64__)
  kind_ = KernelUsesTsc() && TscNeverStops() && TscAllowed() ? STEPSCOPE_CLOCK_TSC : STEPSCOPE_CLOCK_MONOTONIC;
#elif defined(__aarch64__)
  kind_ = STEPSCOPE_CLOCK_CNTVCT;
#endif
}

stepscope_record_anchor TickClock::Anchor() const {
  constexpr int kBrackets = 12;
  stepscope_record_anchor best{};
  for (int i = 0; i < kBrackets; ++i) {
    uint64_t before = Read();
    uint64_t monotonic_ns = ClockNs(CLOCK_MONOTONIC);
    uint64_t realtime_ns = ClockNs(CLOCK_REALTIME);
    uint64_t width = Read() - before;
    if (i != 0 && width >= best.ticks_width) continue;
    best.ticks = before + width / 2;
    best.ticks_width = width;
    best.monotonic_ns = monotonic_ns;
    best.realtime_ns = realtime_ns;
  }
  return best;
}

}  // namespace stepscope::agent
