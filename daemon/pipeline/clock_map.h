// SPDX-License-Identifier: Apache-2.0
// ClockMap: one source clock's map from ticks to node time, built from anchors. What ClockRegistry keeps per clock.
//
//   segment   anchors that agree with each other. Inside it the map interpolates; behind its last anchor it extrapolates with a
//             bound that grows. An anchor outside the bound predicted for it starts a new segment: the clock was stepped, or
//             the machine slept, and the slope across that moment means nothing.
//
//   node time          ┌─ new segment
//     │        x──x    x──x··   x anchor, ─ interpolated, · extrapolated
//     │    x──x      ··             between segments the older one holds, never beyond the first anchor of the newer
//     └──────────────────── ticks
//
// Thread rule: none of its own; ClockRegistry locks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "daemon/pipeline/clock_registry.h"

namespace stepscope {

class ClockMap {
 public:
  ClockMap(int64_t offset_ns, ClockRate rate) : offset_ns_(offset_ns), rate_(rate) {}

  void Add(const ClockAnchor& anchor);
  absl::StatusOr<PlacedTime> Place(SourceTicks ticks) const;
  /// The same for many readings, nullopt where Place fails; fast where neighbours fall between the same anchors.
  std::vector<std::optional<PlacedTime>> PlaceAll(std::span<const int64_t> readings) const;

 private:
  struct Point {
    uint64_t ticks = 0;
    int64_t node_ns = 0;
    double error_ns = 0;
    bool starts_segment = false;
  };
  struct Slope {
    double ns_per_tick = 1.0;
    double relative_error = 1.0;
  };
  /// A stretch of readings: from points_[after - 1] until before points_[after].
  struct Stretch {
    size_t after = 0;
    Slope slope;  ///< at points_[after - 1], or at the first point before it
  };
  struct Guess {
    double node_ns = 0;
    double error_ns = 0;
  };

  bool identity() const { return rate_.relative_error == 0; }
  Slope SlopeAt(size_t index) const;
  Guess Extrapolate(size_t index, uint64_t ticks) const { return Extrapolate(index, ticks, SlopeAt(index)); }
  Guess Extrapolate(size_t index, uint64_t ticks, const Slope& slope) const;
  Guess Interpolate(size_t index, uint64_t ticks) const;
  Guess Between(size_t index, uint64_t ticks, const Slope& slope) const;
  Stretch StretchOf(uint64_t ticks) const;
  bool Holds(const Stretch& stretch, uint64_t ticks) const;
  std::optional<PlacedTime> PlaceIn(const Stretch& stretch, uint64_t ticks) const;
  bool Agrees(size_t index, const Point& point) const;
  void ThinOut();

  int64_t offset_ns_;
  ClockRate rate_;
  std::vector<Point> points_;  ///< by ticks
};

}  // namespace stepscope
