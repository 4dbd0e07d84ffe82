// SPDX-License-Identifier: Apache-2.0
#include "storage/block_scan.h"

#include <optional>

#include "storage/keys.h"

namespace stepscope {
namespace {

constexpr uint64_t kMostAsked = 1 << 16;
constexpr unsigned kSeqBits = 32, kShardBits = 16, kPlaceBits = 80;

/// Bytes that are not what was written, or a file that is gone; anything else of the disk may pass.
bool IsDamage(const rocksdb::Status& status) { return status.IsCorruption() || status.IsPathNotFound(); }

}  // namespace

BlockScan::Place BlockScan::PlaceOf(const BlockKey& key) {
  return (Place{key.slot} << kShardBits | key.shard) << kSeqBits | key.seq;
}

BlockKey BlockScan::KeyAt(Place place) const {
  return {.run = run_,
          .table = table_,
          .slot = static_cast<uint32_t>(place >> (kShardBits + kSeqBits)),
          .shard = static_cast<uint16_t>(place >> kSeqBits),
          .seq = static_cast<uint32_t>(place)};
}

/// False when what lies at or behind `place` cannot be read.
bool BlockScan::Seek(Place place) {
  at_->Seek(EncodeBlockKey(KeyAt(place)));
  return at_->Valid() || !IsDamage(at_->status());
}

/// The first place behind `bad`, which cannot be read, from which reading works; 0 = none. Moves `bad` to the place before it.
BlockScan::Place BlockScan::BehindDamage(Place* bad) {
  constexpr Place kEnd = (Place{1} << kPlaceBits) - 1;
  Place good = *bad, step = 1;
  do {
    *bad = good;
    if (*bad == kEnd) return 0;
    good = step < kEnd - *bad ? *bad + step : kEnd;
    step *= 2;
  } while (!Seek(good));
  while (good - *bad > 1) {
    const Place middle = *bad + (good - *bad) / 2;
    (Seek(middle) ? good : *bad) = middle;
  }
  return good;
}

/// Visits the damaged keys from next_ to `last`, which is one. Blocks next to each other in time have numbers next to each other.
bool BlockScan::VisitDamaged(Place last, const Visit& visit) {
  const BlockKey from = KeyAt(next_), to = KeyAt(last);
  const uint64_t slots = uint64_t{to.slot} - from.slot + 1;
  const uint64_t seqs = to.seq >= from.seq ? uint64_t{to.seq} - from.seq + 1 : 0;
  for (uint64_t i = 0; slots * seqs <= kMostAsked && i < slots * seqs; ++i) {
    BlockKey key = to;
    key.slot = from.slot + static_cast<uint32_t>(i / seqs);
    key.seq = from.seq + static_cast<uint32_t>(i % seqs);
    if (PlaceOf(key) >= last || !IsWanted(key.slot) || !IsDamage(get_(EncodeBlockKey(key)))) continue;
    if (!visit(key, {})) return false;
  }
  return !IsWanted(to.slot) || visit(to, {});
}

/// Stands behind the damage at or behind next_; false at the end of the scan.
bool BlockScan::SkipDamage(const Visit& visit) {
  if (Seek(next_)) return true;  // it could be read this time
  Place bad = next_;
  const Place good = BehindDamage(&bad);
  const bool more = VisitDamaged(good != 0 ? bad : next_, visit);
  next_ = good;
  return more && good != 0 && Seek(good);
}

rocksdb::Status BlockScan::Run(const Visit& visit) {
  next_ = PlaceOf({run_, table_, first_, 0, 0});
  bool readable = Seek(next_);
  while (true) {
    if (!readable && !SkipDamage(visit)) return rocksdb::Status::OK();
    if (!at_->Valid()) break;
    const std::optional<BlockKey> key = DecodeBlockKey(at_->key().ToStringView());
    if (key && key->slot > last_ && key->slot != kLongSlot) {
      next_ = PlaceOf({run_, table_, kLongSlot, 0, 0});
      readable = Seek(next_);
      continue;
    }
    if (key) next_ = PlaceOf(*key) + 1;
    if (key && !visit(*key, at_->value().ToStringView())) break;
    at_->Next();
    readable = at_->Valid() || !IsDamage(at_->status());
  }
  return at_->status();
}

}  // namespace stepscope
