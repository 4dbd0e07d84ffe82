// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/clock_map.h"

#include <algorithm>
#include <cmath>

namespace stepscope {
namespace {

constexpr size_t kMaxPoints = 512;  // then every second one of the older half goes: old readings are rare
constexpr size_t kSlopePoints = 8;  // a slope is taken over the last this many anchors
constexpr double kDrift = 5e-6;     // how far a disciplined clock's speed may wander from its last slope
constexpr double kFarNs = 3600e9;
constexpr double kMostErrorNs = 1e15;  // eleven days: beyond it an anchor tells nothing
constexpr double kTighter = 8;         // an anchor this much wider than what is already known says nothing

/// Readings come from strangers: sums of them wrap instead of being undefined.
int64_t Sum(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b)); }

int64_t Rounded(double ns) { return std::llround(std::clamp(ns, -9e18, 9e18)); }

double TicksBetween(uint64_t from, uint64_t to) {
  return to >= from ? static_cast<double>(to - from) : -static_cast<double>(from - to);
}

}  // namespace

/// Slope of the map around points_[index], from its segment, or the rate known beforehand where that is tighter.
ClockMap::Slope ClockMap::SlopeAt(size_t index) const {
  Slope best{rate_.ns_per_tick, rate_.relative_error};
  size_t first = index;
  while (first > 0 && !points_[first].starts_segment && index - first < kSlopePoints) --first;
  size_t last = index;
  if (first == index) {
    while (last + 1 < points_.size() && !points_[last + 1].starts_segment && last - index < kSlopePoints) ++last;
  }
  const double ticks = TicksBetween(points_[first].ticks, points_[last].ticks);
  const double node = static_cast<double>(points_[last].node_ns) - static_cast<double>(points_[first].node_ns);
  if (ticks <= 0 || node <= 0) return best;
  const double error = (points_[first].error_ns + points_[last].error_ns + 1) / node;
  if (error < best.relative_error) best = {node / ticks, error};
  return best;
}

ClockMap::Guess ClockMap::Extrapolate(size_t index, uint64_t ticks, const Slope& slope) const {
  const Point& from = points_[index];
  const double away = TicksBetween(from.ticks, ticks) * slope.ns_per_tick;
  return {static_cast<double>(from.node_ns) + away, from.error_ns + 1 + std::abs(away) * (slope.relative_error + kDrift)};
}

/// Between points_[index] and the next of the same segment. The true map may bend between them by at most the drift.
ClockMap::Guess ClockMap::Interpolate(size_t index, uint64_t ticks) const {
  const Point& a = points_[index];
  const Point& b = points_[index + 1];
  const double share = TicksBetween(a.ticks, ticks) / TicksBetween(a.ticks, b.ticks);
  const double span = static_cast<double>(b.node_ns) - static_cast<double>(a.node_ns);
  const double bend = 2 * kDrift * span * share * (1 - share);
  return {static_cast<double>(a.node_ns) + span * share, std::max(a.error_ns, b.error_ns) + bend + 1};
}

/// In the gap before a new segment: the older map holds, as it did for rows placed live, cut at the newer segment's start.
ClockMap::Guess ClockMap::Between(size_t index, uint64_t ticks, const Slope& slope) const {
  const Point& next = points_[index + 1];
  Guess guess = Extrapolate(index, ticks, slope);
  const Guess broken = Extrapolate(index, next.ticks, slope);
  guess.error_ns += std::abs(broken.node_ns - static_cast<double>(next.node_ns));
  guess.node_ns = std::min(guess.node_ns, static_cast<double>(next.node_ns));
  return guess;
}

bool ClockMap::Agrees(size_t index, const Point& point) const {
  const Guess guess = Extrapolate(index, point.ticks);
  return std::abs(guess.node_ns - static_cast<double>(point.node_ns)) <= guess.error_ns + point.error_ns;
}

void ClockMap::Add(const ClockAnchor& anchor) {
  Point point{anchor.ticks.ticks, Sum(anchor.node.ns, offset_ns_), 0, false};
  const auto next = std::ranges::lower_bound(points_, point.ticks, {}, &Point::ticks);
  if (next != points_.end() && next->ticks == point.ticks) return;
  const size_t at = static_cast<size_t>(next - points_.begin());
  const double ns_per_tick = points_.empty() ? rate_.ns_per_tick : SlopeAt(at > 0 ? at - 1 : 0).ns_per_tick;
  point.error_ns = std::min(static_cast<double>(anchor.width_ticks) * ns_per_tick / 2 + 1, kMostErrorNs);
  if (at > 0) {
    const Guess guess = Extrapolate(at - 1, point.ticks);
    point.starts_segment = !Agrees(at - 1, point);
    if (!point.starts_segment && at == points_.size() && point.error_ns > kTighter * guess.error_ns) return;
  }
  if (at < points_.size()) {
    bool& cut = points_[at].starts_segment;
    if (at > 0 && point.starts_segment && !cut) return;  // alone against both neighbours
    if (at == 0 || point.starts_segment) cut = !Agrees(at, point);
  }
  points_.insert(points_.begin() + static_cast<std::ptrdiff_t>(at), point);
  if (points_.size() > kMaxPoints) ThinOut();
}

void ClockMap::ThinOut() {
  size_t kept = 1;
  for (size_t i = 1; i < points_.size(); ++i) {
    const bool newer = i >= points_.size() / 2;
    const bool joint = points_[i].starts_segment || (i + 1 < points_.size() && points_[i + 1].starts_segment);
    if (newer || joint || i % 2 == 0) points_[kept++] = points_[i];
  }
  points_.resize(kept);
  if (kept > kMaxPoints) points_.erase(points_.begin(), points_.begin() + kMaxPoints / 2);
}

ClockMap::Stretch ClockMap::StretchOf(uint64_t ticks) const {
  const auto after = std::ranges::upper_bound(points_, ticks, {}, &Point::ticks);
  const auto index = static_cast<size_t>(after - points_.begin());
  return {index, SlopeAt(index == 0 ? 0 : index - 1)};
}

bool ClockMap::Holds(const Stretch& stretch, uint64_t ticks) const {
  return (stretch.after == 0 || points_[stretch.after - 1].ticks <= ticks) &&
         (stretch.after == points_.size() || ticks < points_[stretch.after].ticks);
}

/// nullopt for a reading too far from every anchor.
std::optional<PlacedTime> ClockMap::PlaceIn(const Stretch& stretch, uint64_t ticks) const {
  Guess guess;
  double away_ns = 0;
  if (stretch.after == 0) {
    guess = Extrapolate(0, ticks, stretch.slope);
    away_ns = static_cast<double>(points_.front().node_ns) - guess.node_ns;
  } else {
    const size_t index = stretch.after - 1;
    const bool last = stretch.after == points_.size();
    if (last) {
      guess = Extrapolate(index, ticks, stretch.slope);
    } else {
      guess = points_[stretch.after].starts_segment ? Between(index, ticks, stretch.slope) : Interpolate(index, ticks);
    }
    away_ns = guess.node_ns - static_cast<double>(points_[index].node_ns);
    if (!last) away_ns = std::min(away_ns, static_cast<double>(points_[stretch.after].node_ns) - guess.node_ns);
  }
  if (!(away_ns <= kFarNs)) return std::nullopt;
  return PlacedTime{{Rounded(guess.node_ns)}, Rounded(std::min(std::ceil(guess.error_ns), kMostErrorNs * 10))};
}

absl::StatusOr<PlacedTime> ClockMap::Place(SourceTicks source) const {
  if (identity()) return PlacedTime{{Sum(static_cast<int64_t>(source.ticks), offset_ns_)}, 0};
  if (points_.empty()) return absl::FailedPreconditionError("the clock has no anchor yet; its rows wait for the first one");
  if (const auto placed = PlaceIn(StretchOf(source.ticks), source.ticks)) return *placed;
  return absl::OutOfRangeError("the reading is more than an hour from every anchor of its clock");
}

std::vector<std::optional<PlacedTime>> ClockMap::PlaceAll(std::span<const int64_t> readings) const {
  std::vector<std::optional<PlacedTime>> placed(readings.size());
  if (!identity() && (points_.empty() || readings.empty())) return placed;
  Stretch stretch;
  if (!identity()) stretch = StretchOf(static_cast<uint64_t>(readings[0]));
  for (size_t i = 0; i < readings.size(); ++i) {
    const auto ticks = static_cast<uint64_t>(readings[i]);
    if (identity()) {
      placed[i] = PlacedTime{{Sum(readings[i], offset_ns_)}, 0};
      continue;
    }
    if (!Holds(stretch, ticks)) stretch = StretchOf(ticks);
    placed[i] = PlaceIn(stretch, ticks);
  }
  return placed;
}

}  // namespace stepscope
