// SPDX-License-Identifier: Apache-2.0
// What a source hands to the pipeline: rows and, for agent rings, the position those rows advance. Everything in one Delivery
// is stored in one WriteBatch or not at all.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "storage/store.h"
#include "trace/address_range.h"
#include "trace/batch.h"

namespace stepscope {

/// What a source learned about an entity besides its key; the latest note wins.
struct EntityNote {
  RunId run;
  EntityKey key;
  std::string name;       ///< comm of a thread, command of a process
  int32_t rank = -1;      ///< of a process; -1 = none
  int32_t inner_id = 0;   ///< innermost tid or pid where it differs from the host's; 0 = same
  AddressRange gil = {};  ///< of a process: its interpreter's lock; empty = nothing new
};

struct Delivery {
  std::vector<Batch> batches;  ///< not interned; kTime columns in each batch's clock
  std::vector<EntityNote> notes;
  std::vector<PositionRow> positions;
  std::vector<SessionNameRow> session_names;
  NodeTime delivered;  ///< set by Deliver
  /// Runs on the pipeline thread after the WriteBatch returned (OK: everything above is stored). May be empty.
  std::function<void(const absl::Status&)> on_stored;
};

class DeliverySink {
 public:
  virtual ~DeliverySink() = default;
  /// Queues one delivery. Blocks while the queue is full (that is the back-pressure on the source); false once the pipeline
  /// is stopping: the rows were not taken and the source keeps them. Any thread.
  virtual bool Deliver(Delivery delivery) = 0;
};

}  // namespace stepscope
