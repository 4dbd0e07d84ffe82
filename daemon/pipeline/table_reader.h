// SPDX-License-Identifier: Apache-2.0
// TableReader: rows of a run as one view over memory (open blocks) and store (sealed blocks). Used by queries, the uploader
// and the summary. Memory is read first, then the store; a block seen in memory is skipped in the store, so a row appears once.
//
// Thread rule: any thread.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/time.h"
#include "storage/store.h"
#include "trace/address_range.h"
#include "trace/batch.h"

namespace stepscope {

struct EntityInfo {
  EntityKey key;
  std::string name;
  int32_t rank = -1;  ///< of a process; a thread takes its process's
  int32_t inner_id = 0;
  AddressRange gil = {};  ///< of a process: its interpreter's lock; empty = not known
};

/// An open block: rows in memory that the store may get under the same key.
struct LiveBlock {
  BlockKey key;
  std::shared_ptr<const Batch> rows;  ///< interned
};

class DamagedBlocks;

/// Memory side of the reader, implemented by the pipeline.
class LiveRows {
 public:
  virtual ~LiveRows() = default;
  virtual std::vector<LiveBlock> LiveBlocks(RunId run, TableId table) const = 0;
};

class TableReader {
 public:
  /// `damaged` learns of blocks that cannot be read; without it, and when one was not known yet, reading ends with DATA_LOSS, all
  /// other blocks having been visited.
  TableReader(const Store* store, const LiveRows* live, DamagedBlocks* damaged = nullptr)
      : store_(store), live_(live), damaged_(damaged) {}

  /// Interned batches that may hold rows overlapping [begin, end); rows outside that range can be among them. Lanes are not
  /// ordered among each other and batches not by time. `visit` returns false to stop. With `lanes` (ascending) other lanes' rows
  /// may be left out, which makes stored blocks much cheaper to read.
  absl::Status ForEachBatch(RunId run, TableId table, NodeTime begin, NodeTime end,
                            const std::function<bool(const Batch&)>& visit, std::span<const uint32_t> lanes = {}) const;

  /// Only what the store holds, with its keys: what an upload part is made of.
  absl::Status ForEachStoredBatch(RunId run, TableId table, NodeTime begin, NodeTime end,
                                  const std::function<bool(const BlockKey&, const Batch&)>& visit,
                                  std::span<const uint32_t> lanes = {}) const;

 private:
  const Store* store_;
  const LiveRows* live_;
  DamagedBlocks* damaged_;
};

/// Loss rows of what retention removed from the run: once what had not been uploaded, once what had. A damaged block is left out.
absl::Status ForEachEvicted(const Store& store, RunId run, const std::function<void(bool uploaded, const Batch& loss)>& visit);

/// Names and entities of a run, for readers. Implemented by the pipeline (memory) with the store behind it.
class RunDictionary {
 public:
  virtual ~RunDictionary() = default;
  virtual std::string Name(RunId run, NameId id) const = 0;  ///< "" for 0, "(unknown name N)" if missing
  virtual EntityInfo Entity(RunId run, EntityId id) const = 0;
  virtual std::vector<std::pair<EntityId, EntityInfo>> Entities(RunId run) const = 0;
  virtual std::vector<std::pair<NameId, std::string>> Names(RunId run) const = 0;
};

}  // namespace stepscope
