// SPDX-License-Identifier: Apache-2.0
// OpenBatches: rows of a scheduling collector, of whatever level of rights, that are not delivered yet: one open batch per run
// and table, handed over when full or at the end of a drain. Its heirs know what their records mean.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "trace/batch.h"

namespace stepscope {

/// What one CPU lost of one run within [from, to).
struct KernelLoss {
  RunId run;
  int64_t cpu = 0;
  NodeTime from;
  NodeTime to;
  TableId table = TableId::kSchedSlice;  ///< TableId{} for task events
  int64_t count = 0;
  int64_t bytes = 0;
};

class OpenBatches {
 public:
  void AddLoss(const KernelLoss& loss);
  size_t rows() const { return rows_; }
  /// Everything added since the last call.
  std::vector<Batch> Take();

 protected:
  Batch& Of(TableId table, RunId run);
  /// Adds a row to a batch got from Of().
  void Add(Batch& batch, uint32_t lane, std::initializer_list<int64_t> row);
  /// `metric` is the lane's, `name` the value's.
  void AddCounter(RunId run, const EntityKey& metric, std::string_view name, double value, NodeTime now);
  /// Lane of `thread` in `batch`, looked up once per batch. Thread has key, batch_serial and batch_lane.
  template <typename Thread>
  uint32_t LaneOf(Thread& thread, Batch& batch) const {
    if (thread.batch_serial != serial_) {
      thread.batch_serial = serial_;
      thread.batch_lane = static_cast<uint32_t>(batch.entities.size());
      batch.entities.push_back(thread.key);
    }
    return thread.batch_lane;
  }

 private:
  std::map<std::pair<TableId, RunId>, Batch> open_;
  std::map<std::pair<TableId, RunId>, size_t> last_rows_;  ///< of the batches before, and some: about as many come again
  size_t rows_ = 0;
  uint64_t serial_ = 1;  ///< of the batches being filled; a thread's cached lane is valid while it matches
};

}  // namespace stepscope
