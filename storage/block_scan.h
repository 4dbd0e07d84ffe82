// SPDX-License-Identifier: Apache-2.0
// BlockScan: walks the blocks of one table of one run by key, over places that cannot be read.
//
// RocksDB checks everything it reads, and an iterator that meets damage is no longer valid and does not say where it is. The scan
// then looks for the next place from which reading works (steps that double, then halve): the key before it is damaged, and those
// before that are asked for one by one, as far as they are not too many.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "rocksdb/iterator.h"
#include "storage/store.h"

namespace stepscope {

class BlockScan {
 public:
  using Visit = std::function<bool(const BlockKey&, std::string_view)>;

  /// Reads one key alone.
  using Get = std::function<rocksdb::Status(const std::string& key)>;

  /// Slots first … last, then the long stripe, of the table the iterator is bounded to.
  BlockScan(rocksdb::Iterator* at, Get get, RunId run, TableId table, uint32_t first, uint32_t last)
      : at_(at), get_(std::move(get)), run_(run), table_(table), first_(first), last_(last) {}
  rocksdb::Status Run(const Visit& visit);

 private:
  using Place = unsigned __int128;  ///< slot, shard and seq of a key as one number

  static Place PlaceOf(const BlockKey& key);
  BlockKey KeyAt(Place place) const;
  bool Seek(Place place);
  Place BehindDamage(Place* bad);
  bool VisitDamaged(Place last, const Visit& visit);
  bool SkipDamage(const Visit& visit);
  bool IsWanted(uint32_t slot) const { return slot == kLongSlot || (slot >= first_ && slot <= last_); }

  rocksdb::Iterator* at_;
  const Get get_;
  const RunId run_;
  const TableId table_;
  const uint32_t first_;
  const uint32_t last_;
  Place next_ = 0;  ///< where the search for damage begins: behind the last key that was read
};

}  // namespace stepscope
