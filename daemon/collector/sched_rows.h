// SPDX-License-Identifier: Apache-2.0
// Turns slices and losses into batches: one open batch per run and table, handed over when full or at the end of a drain.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/time.h"
#include "contract/sched_record.h"
#include "daemon/collector/occupant_names.h"
#include "daemon/collector/sched_task_table.h"
#include "trace/batch.h"

namespace stepscope {

/// What one CPU lost of one run within [from, to).
struct KernelLoss {
  RunId run;
  int64_t cpu = 0;
  NodeTime from;
  NodeTime to;
  TableId table = TableId::kSchedSlice;  ///< kSchedSlice, or TableId{} for task events
  int64_t count = 0;
  int64_t bytes = 0;
};

class SchedRows {
 public:
  void AddSlice(TrackedThread& thread, const stepscope_slice& slice);
  /// One row per part of the wait; `occupants` are those of wait.parts, in order.
  void AddWait(const TrackedThread& thread, const stepscope_wait& wait, std::span<const Occupant> occupants);
  void AddLoss(const KernelLoss& loss);
  size_t rows() const { return rows_; }
  /// Everything added since the last call.
  std::vector<Batch> Take();

 private:
  std::map<RunId, Batch> slices_;
  std::map<RunId, Batch> waits_;
  std::map<RunId, Batch> losses_;
  size_t rows_ = 0;
  uint64_t serial_ = 1;  ///< of the batches being filled; a thread's cached lane is valid while it matches
};

}  // namespace stepscope
