// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/tick_reading.h"

#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "contract/hello.h"

namespace stepscope {
namespace {

constexpr int kBrackets = 16;
constexpr int64_t kLeastSpanNs = 10 * kNsPerMillisecond;

#if defined(__x86_64__)
constexpr uint32_t kOwnKind = STEPSCOPE_CLOCK_TSC;
uint64_t Ticks() { return __rdtsc(); }
#elif defined(__aarch64__)
constexpr uint32_t kOwnKind = STEPSCOPE_CLOCK_CNTVCT;
uint64_t Ticks() {
  uint64_t ticks;
  __asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
}
#else
constexpr uint32_t kOwnKind = 0;
uint64_t Ticks() { return 0; }
#endif

}  // namespace

TickReading::TickReading() : first_(Read(kOwnKind)) {}

std::optional<ClockAnchor> TickReading::Read(uint32_t clock_kind) {
  if (kOwnKind == 0 || clock_kind != kOwnKind) return std::nullopt;
  ClockAnchor best;
  for (int i = 0; i < kBrackets; ++i) {
    const uint64_t before = Ticks();
    const int64_t node_ns = ReadClockNs(CLOCK_MONOTONIC);
    const uint64_t width = Ticks() - before;
    if (i == 0 || width < best.width_ticks) best = {{before + width / 2}, width, {node_ns}};
  }
  return best;
}

ClockRate TickReading::Rate(uint32_t clock_kind) const {
  if (clock_kind == STEPSCOPE_CLOCK_MONOTONIC) return {1.0, 0.0};
  if (clock_kind != kOwnKind || !first_) return {};
  const int64_t span_ns = ReadClockNs(CLOCK_MONOTONIC) - first_->node.ns;
  if (span_ns < kLeastSpanNs) {
    const timespec rest{0, static_cast<long>(kLeastSpanNs - span_ns)};
    nanosleep(&rest, nullptr);
  }
  const auto now = Read(clock_kind);
  if (!now) return {};
  const auto ticks = static_cast<double>(now->ticks.ticks - first_->ticks.ticks);
  const auto width = static_cast<double>(now->width_ticks + first_->width_ticks);
  return {static_cast<double>(now->node - first_->node) / ticks, width / ticks + 1e-9};
}

}  // namespace stepscope
