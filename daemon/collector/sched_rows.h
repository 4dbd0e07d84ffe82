// SPDX-License-Identifier: Apache-2.0
// Rows of SchedCollector: slices, waits and histograms.
#pragma once

#include <span>

#include "base/time.h"
#include "contract/sched_record.h"
#include "daemon/collector/occupant_names.h"
#include "daemon/collector/open_batches.h"
#include "daemon/collector/task_table.h"

namespace stepscope {

class SchedRows : public OpenBatches {
 public:
  void AddSlice(TrackedThread& thread, const stepscope_slice& slice);
  /// One row per part of the wait; `occupants` are those of wait.parts, in order.
  void AddWait(const TrackedThread& thread, const stepscope_wait& wait, std::span<const Occupant> occupants);
  /// Counter rows: what `now` has beyond `base`, cumulative since the run was tracked; a bucket appears with its first count.
  void AddHistogram(RunId run, NodeTime time, const stepscope_sched_histogram& base, const stepscope_sched_histogram& now);
};

}  // namespace stepscope
