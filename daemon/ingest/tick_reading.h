// SPDX-License-Identifier: Apache-2.0
// TickReading: the daemon's own view of the counters agents use. One TSC (CNTVCT on arm64) ticks for the whole node, so the
// daemon can anchor it itself and knows its speed before a session's first anchor arrives.
#pragma once

#include <cstdint>
#include <optional>

#include "daemon/pipeline/clock_registry.h"

namespace stepscope {

class TickReading {
 public:
  TickReading();
  /// Tightest of several brackets of the counter of `clock_kind` (hello.h) around CLOCK_MONOTONIC; nullopt when this machine
  /// does not have it.
  static std::optional<ClockAnchor> Read(uint32_t clock_kind);
  /// Speed of `clock_kind` by what passed since construction; takes up to 10 ms in the first 10 ms.
  ClockRate Rate(uint32_t clock_kind) const;

 private:
  std::optional<ClockAnchor> first_;
};

}  // namespace stepscope
