// SPDX-License-Identifier: Apache-2.0
// SliceSource: what the daemon asks of whatever records CPU scheduling here, at any level of rights. Implemented by
// SchedCollector (eBPF) and by OwnCollector (perf events or /proc); own/slice_ladder.h picks one when the daemon starts.
// Thread rule: any thread, except that a source's own thread calls nothing but Untrack.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "daemon/collector/collector_state.h"
#include "daemon/collector/open_turn.h"

namespace stepscope {

class SliceSource {
 public:
  virtual ~SliceSource() = default;
  /// Follows `root`, its threads and its descendants, now and later; returns when they are.
  virtual absl::Status Track(Pid root, RunId run) = 0;
  /// Stops following a run after delivering what was recorded. OK if it was not tracked.
  virtual absl::Status Untrack(RunId run) = 0;
  /// Delivers everything recorded before the call, losses included.
  virtual absl::Status Flush() = 0;
  /// Delivers and joins. Idempotent.
  virtual void Stop() = 0;
  virtual CollectorState State() const = 0;
  /// What every followed thread does right now; empty at levels that cannot tell.
  virtual std::vector<OpenTurn> OpenTurns() { return {}; }
};

}  // namespace stepscope
