// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/damaged_blocks.h"

#include <spdlog/spdlog.h>

#include <algorithm>

#include "base/status.h"
#include "storage/keys.h"

namespace stepscope {
namespace {

absl::Status CheckPlace(const BlockKey& key, const BlockHeader& header) {
  if (header.table == key.table && header.run == key.run) return absl::OkStatus();
  return absl::DataLossError("damaged block: it lies under the key of another");
}

struct Interval {
  int64_t start_ns = 0;
  int64_t dur_ns = 0;
};

/// Rows of a slot end in its second; those of the long stripe end at any time until `now`.
Interval TimeOf(const BlockKey& key, const absl::StatusOr<BlockHeader>& header, NodeTime now) {
  if (header.ok() && header->min_time.ns >= 0 && header->max_time >= header->min_time && header->max_time <= now) {
    return {header->min_time.ns, header->max_time - header->min_time};
  }
  if (key.slot == kLongSlot) return {0, now.ns};
  return {int64_t{key.slot} * kNsPerSecond, kNsPerSecond};
}

Delivery LossOf(const BlockKey& key, std::string_view bytes, NodeTime now) {
  const auto header = PeekStoredBlock(key, bytes);
  const Interval time = TimeOf(key, header, now);
  Batch loss = Batch::For(TableId::kLoss, key.run);
  const uint32_t node = loss.LocalEntity({EntityKind::kNode, 0, 0, 0, ""});
  loss.Append(node, {time.start_ns, time.dur_ns, static_cast<int64_t>(LossStage::kStore), -1,
                     static_cast<int64_t>(LossReason::kDamaged), static_cast<int64_t>(key.table),
                     header.ok() ? int64_t{header->rows} : -1, bytes.empty() ? -1 : static_cast<int64_t>(bytes.size())});
  Delivery delivery;
  delivery.batches.push_back(std::move(loss));
  return delivery;
}

}  // namespace

absl::StatusOr<DecodedBlock> ReadStoredBlock(const BlockKey& key, std::string_view bytes, std::span<const uint32_t> lanes) {
  STEPSCOPE_ASSIGN_OR_RETURN(DecodedBlock block, DecodeBlock(bytes, lanes));
  STEPSCOPE_RETURN_IF_ERROR(CheckPlace(key, block.header));
  return block;
}

absl::StatusOr<BlockHeader> PeekStoredBlock(const BlockKey& key, std::string_view bytes) {
  STEPSCOPE_ASSIGN_OR_RETURN(BlockHeader header, PeekHeader(bytes));
  STEPSCOPE_RETURN_IF_ERROR(CheckPlace(key, header));
  return header;
}

bool DamagedBlocks::IsNew(const BlockKey& key) {
  const std::lock_guard lock(mu_);
  if (!told_.insert(key).second) return false;
  const auto known = store_->GetMeta(RunMetaKind("damaged", key.run), EncodeBlockKey(key));
  return !known.ok() || !known->has_value();
}

bool DamagedBlocks::Note(const BlockKey& key, std::string_view bytes, const absl::Status& why) {
  if (!IsNew(key)) return false;
  const std::string reason(why.message());
  spdlog::error("store: run {}, a block of table {}, second {}: {}; its rows are left out", key.run.value,
                static_cast<int>(key.table), key.slot, reason);
  Delivery delivery = LossOf(key, bytes, clock_->Node());
  delivery.on_stored = [store = store_, key, reason](const absl::Status& status) {
    Seal told;
    told.meta.push_back({RunMetaKind("damaged", key.run), EncodeBlockKey(key), reason});
    if (status.ok()) store->Commit(told).IgnoreError();  // a later process tells it again then
  };
  sink_->Deliver(std::move(delivery));
  return true;
}

}  // namespace stepscope
