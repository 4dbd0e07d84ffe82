// SPDX-License-Identifier: Apache-2.0
// The clocks of stepscope as types. Node time (CLOCK_MONOTONIC of the node), wall time (CLOCK_REALTIME) and raw source
// ticks never mix by accident: only a ClockMap (daemon/ingest/clock_map.h) converts, and it returns an error bound
// beside the value. All values are integers; nanoseconds unless the name says ticks. Intervals are half-open [start, end).
#pragma once

#include <time.h>

#include <compare>
#include <cstdint>

namespace stepscope {

/// Nanoseconds of the node's CLOCK_MONOTONIC. Meaningful only inside one boot of one node.
struct NodeTime {
  int64_t ns = 0;
  friend constexpr auto operator<=>(NodeTime, NodeTime) = default;
};
/// Nanoseconds since the Unix epoch (CLOCK_REALTIME). May step.
struct WallTime {
  int64_t ns = 0;
  friend constexpr auto operator<=>(WallTime, WallTime) = default;
};
/// Raw reading of an agent's clock: TSC ticks, or CLOCK_MONOTONIC ns where the TSC is not usable (hello.h ClockKind).
struct SourceTicks {
  uint64_t ticks = 0;
  friend constexpr auto operator<=>(SourceTicks, SourceTicks) = default;
};

constexpr int64_t operator-(NodeTime a, NodeTime b) { return a.ns - b.ns; }
constexpr NodeTime operator+(NodeTime t, int64_t ns) { return {t.ns + ns}; }

constexpr int64_t kNsPerSecond = 1'000'000'000;
constexpr int64_t kNsPerMillisecond = 1'000'000;

inline int64_t ReadClockNs(clockid_t id) {
  timespec t{};
  clock_gettime(id, &t);
  return int64_t{t.tv_sec} * kNsPerSecond + t.tv_nsec;
}

/// The seam through which the daemon reads clocks, so a test can step them.
class Clock {
 public:
  virtual ~Clock() = default;
  virtual NodeTime Node() const = 0;
  virtual WallTime Wall() const = 0;
};

/// The machine's own clocks.
class SystemClock final : public Clock {
 public:
  NodeTime Node() const override { return {ReadClockNs(CLOCK_MONOTONIC)}; }
  WallTime Wall() const override { return {ReadClockNs(CLOCK_REALTIME)}; }
};

}  // namespace stepscope
