// SPDX-License-Identifier: Apache-2.0
// OpenBlocks: the rows of one run that are not sealed yet, one block per (table, second in which its rows end). A block has its
// store key from its first row on, so a reader that saw it in memory recognises it in the store.
//
// Thread rule: owned by the pipeline (its mutex guards it).
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "daemon/pipeline/table_reader.h"
#include "storage/store.h"
#include "trace/batch.h"

namespace stepscope {

class OpenBlocks {
 public:
  OpenBlocks(RunId run, uint16_t shard, uint32_t next_seq) : run_(run), shard_(shard), next_seq_(next_seq) {}

  /// Adds the rows of an interned batch in node time.
  void Add(const Batch& batch);
  bool empty() const { return blocks_.empty(); }
  bool AnyFull() const { return full_; }
  /// Copies, for readers.
  std::vector<LiveBlock> Snapshot(TableId table) const;
  std::vector<std::pair<BlockKey, const Batch*>> All() const;
  /// Everything was stored.
  void Clear();

 private:
  using Place = std::pair<TableId, uint32_t>;  // table, slot
  struct Block {
    BlockKey key;
    Batch rows;
  };
  Block& Get(Place place);

  const RunId run_;
  const uint16_t shard_;
  uint32_t next_seq_;
  bool full_ = false;
  std::multimap<Place, Block> blocks_;
};

}  // namespace stepscope
