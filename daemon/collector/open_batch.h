// SPDX-License-Identifier: Apache-2.0
// What the scheduling collectors, of whatever level of rights, share in making rows: one open batch per run and table, and a lane
// per thread that is looked up once per batch.
#pragma once

#include <map>

#include "base/ids.h"
#include "trace/batch.h"

namespace stepscope {

inline Batch& OpenBatch(std::map<RunId, Batch>& open, TableId table, RunId run) {
  auto it = open.find(run);
  if (it == open.end()) it = open.emplace(run, Batch::For(table, run)).first;
  return it->second;
}

/// Lane of `thread` in the batch being filled, whose number is `serial`. Thread has key, batch_serial and batch_lane.
template <typename Thread>
uint32_t LaneOf(Thread& thread, Batch& batch, uint64_t serial) {
  if (thread.batch_serial != serial) {
    thread.batch_serial = serial;
    thread.batch_lane = static_cast<uint32_t>(batch.entities.size());
    batch.entities.push_back(thread.key);
  }
  return thread.batch_lane;
}

}  // namespace stepscope
