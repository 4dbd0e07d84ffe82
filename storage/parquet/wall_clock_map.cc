// SPDX-License-Identifier: Apache-2.0
#include "storage/parquet/wall_clock_map.h"

#include <algorithm>

namespace stepscope {

WallClockMap::WallClockMap(NodeTime start_node, WallTime start_wall) : pairs_{{start_node.ns, start_wall.ns}} {}

void WallClockMap::Add(NodeTime node, WallTime wall) { pairs_.push_back({node.ns, wall.ns}); }

void WallClockMap::Freeze() {
  std::sort(pairs_.begin(), pairs_.end());
  const auto same_moment = [](const Pair& a, const Pair& b) { return a.node_ns == b.node_ns; };
  pairs_.erase(std::unique(pairs_.begin(), pairs_.end(), same_moment), pairs_.end());
  hint_ = 0;
}

WallTime WallClockMap::At(NodeTime node) const {
  const bool holds = pairs_[hint_].node_ns <= node.ns && (hint_ + 1 == pairs_.size() || node.ns < pairs_[hint_ + 1].node_ns);
  if (!holds) {
    const auto after =
        std::upper_bound(pairs_.begin(), pairs_.end(), node.ns, [](int64_t ns, const Pair& pair) { return ns < pair.node_ns; });
    hint_ = after == pairs_.begin() ? 0 : static_cast<size_t>(after - pairs_.begin()) - 1;
  }
  return {node.ns + (pairs_[hint_].wall_ns - pairs_[hint_].node_ns)};
}

}  // namespace stepscope
