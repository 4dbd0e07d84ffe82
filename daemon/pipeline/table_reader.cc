// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/table_reader.h"

#include <set>

#include "base/status.h"
#include "daemon/pipeline/damaged_blocks.h"

namespace stepscope {

absl::Status TableReader::ForEachBatch(RunId run, TableId table, NodeTime begin, NodeTime end,
                                       const std::function<bool(const Batch&)>& visit, std::span<const uint32_t> lanes) const {
  std::set<BlockKey> seen;
  if (live_ != nullptr) {
    for (const LiveBlock& live : live_->LiveBlocks(run, table)) {
      seen.insert(live.key);
      if (!visit(*live.rows)) return absl::OkStatus();
    }
  }
  return ForEachStoredBatch(
      run, table, begin, end, [&](const BlockKey& key, const Batch& batch) { return seen.contains(key) || visit(batch); }, lanes);
}

absl::Status TableReader::ForEachStoredBatch(RunId run, TableId table, NodeTime begin, NodeTime end,
                                             const std::function<bool(const BlockKey&, const Batch&)>& visit,
                                             std::span<const uint32_t> lanes) const {
  absl::Status damaged;
  STEPSCOPE_RETURN_IF_ERROR(store_->ForEachBlock(run, table, begin, end, [&](const BlockKey& key, std::string_view bytes) {
    const auto header = PeekHeader(bytes);
    if (header.ok() && (header->max_time < begin || header->min_time >= end)) return true;
    const auto block = ReadStoredBlock(key, bytes, lanes);
    if (!block.ok()) {
      if (damaged_ == nullptr || damaged_->Note(key, bytes, block.status()))
        damaged = absl::DataLossError(block.status().message());
      return true;
    }
    return visit(key, block->batch);
  }));
  return damaged;
}

absl::Status ForEachEvicted(const Store& store, RunId run, const std::function<void(bool uploaded, const Batch& loss)>& visit) {
  const NodeTime stripe_only{int64_t{kLongSlot - 1} * kNsPerSecond};
  return store.ForEachBlock(run, TableId::kLoss, stripe_only, {INT64_MAX}, [&](const BlockKey& key, std::string_view bytes) {
    if (key.shard != kEvictedShard) return true;
    if (const auto block = DecodeBlock(bytes); block.ok()) visit(key.seq != 0, block->batch);
    return true;
  });
}

}  // namespace stepscope
