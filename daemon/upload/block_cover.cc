// SPDX-License-Identifier: Apache-2.0
#include "daemon/upload/block_cover.h"

#include <algorithm>

namespace stepscope {
namespace {

void AddRange(store::v1::UploadFile& file, const BlockKey& key) {
  if (file.ranges_size() > 0) {
    store::v1::UploadBlocks& last = *file.mutable_ranges(file.ranges_size() - 1);
    if (last.slot() == key.slot && last.shard() == key.shard && last.last_seq() + 1 == key.seq) {
      last.set_last_seq(key.seq);
      return;
    }
  }
  store::v1::UploadBlocks& range = *file.add_ranges();
  range.set_slot(key.slot);
  range.set_shard(key.shard);
  range.set_first_seq(key.seq);
  range.set_last_seq(key.seq);
}

void AddBlock(store::v1::UploadPart& part, const PendingBlock& block) {
  if (part.files_size() == 0 || part.files(part.files_size() - 1).table() != static_cast<uint32_t>(block.key.table)) {
    part.add_files()->set_table(static_cast<uint32_t>(block.key.table));
  }
  store::v1::UploadFile& file = *part.mutable_files(part.files_size() - 1);
  file.set_rows(file.rows() + block.rows);
  file.set_blocks(file.blocks() + 1);
  AddRange(file, block.key);
  if (block.key.slot == kLongSlot) return;
  part.set_first_slot(std::min(part.first_slot(), block.key.slot));
  part.set_last_slot(std::max(part.last_slot(), block.key.slot));
}

}  // namespace

void BlockCover::Add(const store::v1::UploadFile& file) {
  for (const store::v1::UploadBlocks& range : file.ranges()) {
    auto& places = places_[{static_cast<TableId>(file.table()), static_cast<uint16_t>(range.shard())}];
    for (uint64_t seq = range.first_seq(); seq <= range.last_seq(); ++seq)
      places.insert(Place(range.slot(), static_cast<uint32_t>(seq)));
  }
}

bool BlockCover::Contains(const BlockKey& key) const {
  const auto at = places_.find({key.table, key.shard});
  return at != places_.end() && at->second.contains(Place(key.slot, key.seq));
}

store::v1::UploadPart CutPart(std::vector<PendingBlock>& pending, int64_t part_bytes) {
  uint64_t bytes = 0;
  size_t count = 0;
  while (count < pending.size() && bytes < static_cast<uint64_t>(part_bytes)) bytes += pending[count++].bytes;
  const auto cut = pending.begin() + static_cast<ptrdiff_t>(count);
  std::sort(pending.begin(), cut, [](const PendingBlock& a, const PendingBlock& b) { return a.key < b.key; });
  store::v1::UploadPart part;
  part.set_state(store::v1::UploadPart::PLANNED);
  part.set_first_slot(kLongSlot);
  for (auto block = pending.begin(); block != cut; ++block) AddBlock(part, *block);
  pending.erase(pending.begin(), cut);
  return part;
}

}  // namespace stepscope
