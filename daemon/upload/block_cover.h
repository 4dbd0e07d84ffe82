// SPDX-License-Identifier: Apache-2.0
// Which blocks of a run belong to a part, so that each is in exactly one.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "daemon/upload/run_directory.h"
#include "stepscope/store/v1/upload.pb.h"
#include "storage/store.h"

namespace stepscope {

class BlockCover {
 public:
  void Add(const BlockKey& key) { places_[{key.table, key.shard}].insert(Place(key.slot, key.seq)); }
  void Add(const store::v1::UploadFile& file);
  bool Contains(const BlockKey& key) const;

 private:
  static uint64_t Place(uint32_t slot, uint32_t seq) { return uint64_t{slot} << 32 | seq; }

  std::map<std::pair<TableId, uint16_t>, absl::flat_hash_set<uint64_t>> places_;
};

/// A stored block that no part covers yet.
struct PendingBlock {
  BlockKey key;
  uint64_t bytes = 0;
  uint32_t rows = 0;
};

/// The next part of a run: blocks from the front of `pending` until `part_bytes` are reached (at least one), which are removed.
/// Paths are left empty.
store::v1::UploadPart CutPart(std::vector<PendingBlock>& pending, int64_t part_bytes);

}  // namespace stepscope
