// SPDX-License-Identifier: Apache-2.0
// What of the store cannot be read. Readers leave a damaged block out and go on; here it becomes a row of `loss` like anything
// else that is missing: stage store, reason "damaged block", its table, its time (of its header, else of the slot in its key).
//
// A block is told once: by this process, and by later ones through a meta row of kind "damaged/<run>" under the block's key.
//
// Thread rule: any thread but the pipeline's.
#pragma once

#include <cstdint>
#include <mutex>
#include <set>
#include <span>
#include <string_view>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "daemon/pipeline/delivery.h"
#include "storage/store.h"
#include "trace/block.h"

namespace stepscope {

/// The block under `key`, or what is wrong with it: DATA_LOSS also for one of another run or table than its key says. With
/// `lanes` only the rows of those (DecodeBlock).
absl::StatusOr<DecodedBlock> ReadStoredBlock(const BlockKey& key, std::string_view bytes, std::span<const uint32_t> lanes = {});
/// The same for its header alone.
absl::StatusOr<BlockHeader> PeekStoredBlock(const BlockKey& key, std::string_view bytes);

class DamagedBlocks {
 public:
  DamagedBlocks(Store* store, DeliverySink* sink, const Clock* clock) : store_(store), sink_(sink), clock_(clock) {}
  /// True when the block was not known yet. `bytes` is empty where the store could not even read them.
  bool Note(const BlockKey& key, std::string_view bytes, const absl::Status& why);

 private:
  bool IsNew(const BlockKey& key);

  Store* const store_;
  DeliverySink* const sink_;
  const Clock* const clock_;
  std::mutex mu_;
  std::set<BlockKey> told_;
};

}  // namespace stepscope
