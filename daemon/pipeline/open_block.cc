// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/open_block.h"

#include "storage/keys.h"
#include "trace/block.h"

namespace stepscope {
namespace {

/// Row's end; tables without a duration end where they start.
NodeTime EndOf(const TableSpec& spec, const Batch& batch, size_t row) {
  const int64_t start = batch.columns[0][row];
  const bool has_duration = spec.columns.size() > 1 && spec.columns[1].kind == ColumnKind::kDuration;
  return {has_duration ? start + batch.columns[1][row] : start};
}

}  // namespace

OpenBlocks::Block& OpenBlocks::Get(Place place) {
  const auto [first, last] = blocks_.equal_range(place);
  if (first != last) {
    Block& newest = std::prev(last)->second;
    if (newest.rows.rows() < kMaxBlockRows) return newest;
  }
  Block block;
  block.key = {run_, place.first, place.second, shard_, next_seq_++};
  block.rows = Batch::For(place.first, run_);
  block.rows.interned = true;
  return blocks_.emplace(place, std::move(block))->second;
}

void OpenBlocks::Add(const Batch& batch) {
  const TableSpec& spec = *FindTable(batch.table);
  for (size_t row = 0; row < batch.rows(); ++row) {
    const NodeTime start{batch.columns[0][row]};
    Block& block = Get({batch.table, SlotForRow(start, EndOf(spec, batch, row) - start)});
    block.rows.lane.push_back(batch.lane[row]);
    for (size_t c = 0; c < batch.columns.size(); ++c) block.rows.columns[c].push_back(batch.columns[c][row]);
    full_ |= block.rows.rows() >= kMaxBlockRows;
  }
}

std::vector<LiveBlock> OpenBlocks::Snapshot(TableId table) const {
  std::vector<LiveBlock> result;
  for (const auto& [place, block] : blocks_) {
    if (place.first == table) result.push_back({block.key, std::make_shared<const Batch>(block.rows)});
  }
  return result;
}

std::vector<std::pair<BlockKey, const Batch*>> OpenBlocks::All() const {
  std::vector<std::pair<BlockKey, const Batch*>> result;
  for (const auto& [place, block] : blocks_) result.emplace_back(block.key, &block.rows);
  return result;
}

void OpenBlocks::Clear() {
  blocks_.clear();
  full_ = false;
}

}  // namespace stepscope
