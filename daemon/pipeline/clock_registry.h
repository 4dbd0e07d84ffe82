// SPDX-License-Identifier: Apache-2.0
// ClockRegistry: one map per source clock from raw ticks to node time, fed by anchors, read by the place stage.
// Piecewise linear; rows after the last anchor extrapolate the last slope with a wider bound and are final.
//
// Thread rule: any thread; one mutex inside.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "trace/batch.h"

namespace stepscope {

/// One simultaneous reading: `ticks` was read within `width` ticks of node time `node`.
struct ClockAnchor {
  SourceTicks ticks;
  uint64_t width_ticks = 0;
  NodeTime node;
};
/// What is known of a clock's speed before anchors tell it. A TSC's comes from the daemon's own readings of it.
struct ClockRate {
  double ns_per_tick = 1.0;
  double relative_error = 1.0;  ///< 0 = the clock is CLOCK_MONOTONIC itself: ticks + offset, whatever anchors say
};
struct PlacedTime {
  NodeTime time;
  int64_t error_ns = 0;  ///< half-width: the true node time lies in [time - error, time + error]
};

class ClockRegistry {
 public:
  ClockRegistry();
  ~ClockRegistry();
  /// Declares a clock. `offset_ns` is added to node times of anchors (a time namespace seen at hello).
  void Register(ClockId clock, int64_t offset_ns, ClockRate rate = {});
  void AddAnchor(ClockId clock, const ClockAnchor& anchor);
  /// NOT_FOUND for an unknown clock, FAILED_PRECONDITION before its first anchor, OUT_OF_RANGE for readings more than an hour
  /// from every anchor.
  absl::StatusOr<PlacedTime> Place(ClockId clock, SourceTicks ticks) const;
  /// Readings of one clock at once, in any order; nullopt where Place would fail.
  std::vector<std::optional<PlacedTime>> PlaceAll(ClockId clock, std::span<const int64_t> readings) const;
  void Forget(ClockId clock);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepscope
