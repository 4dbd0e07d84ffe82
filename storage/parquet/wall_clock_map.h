// SPDX-License-Identifier: Apache-2.0
// WallClockMap: node time → wall time of one run. The wall clock may step, so the nearest preceding pair of readings decides;
// times before the first pair use the first one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/time.h"

namespace stepscope {

class WallClockMap {
 public:
  /// `start` pair of the run: readings of both clocks at one moment.
  WallClockMap(NodeTime start_node, WallTime start_wall);
  /// A later (or earlier) pair, in any order.
  void Add(NodeTime node, WallTime wall);

  /// Pairs by node time, for manifests.
  struct Pair {
    int64_t node_ns = 0;
    int64_t wall_ns = 0;
    friend auto operator<=>(const Pair&, const Pair&) = default;
  };
  /// Sorts what was added; call before At.
  void Freeze();
  const std::vector<Pair>& pairs() const { return pairs_; }
  WallTime At(NodeTime node) const;

 private:
  std::vector<Pair> pairs_;
  mutable size_t hint_ = 0;  ///< rows come nearly in order
};

}  // namespace stepscope
