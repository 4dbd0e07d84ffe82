// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/open_block.h"

#include <algorithm>

#include "storage/keys.h"
#include "trace/block.h"

namespace stepscope {
namespace {

/// Appends rows [first, first + rows).
void AppendRows(const Batch& from, size_t first, size_t rows, Batch& to) {
  const auto append = [&](const auto& source, auto& target) {
    const auto begin = source.begin() + static_cast<std::ptrdiff_t>(first);
    target.insert(target.end(), begin, begin + static_cast<std::ptrdiff_t>(rows));
  };
  append(from.lane, to.lane);
  for (size_t c = 0; c < from.columns.size(); ++c) append(from.columns[c], to.columns[c]);
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
  const bool has_duration = spec.columns.size() > 1 && spec.columns[1].kind == ColumnKind::kDuration;
  const auto slot_of = [&](size_t row) { return SlotForRow({batch.columns[0][row]}, has_duration ? batch.columns[1][row] : 0); };
  for (size_t row = 0; row < batch.rows();) {
    const uint32_t slot = slot_of(row);
    Block& block = Get({batch.table, slot});
    const size_t room = std::min(batch.rows() - row, kMaxBlockRows - block.rows.rows());
    size_t alike = 1;
    while (alike < room && slot_of(row + alike) == slot) ++alike;
    AppendRows(batch, row, alike, block.rows);
    full_ |= block.rows.rows() >= kMaxBlockRows;
    row += alike;
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
