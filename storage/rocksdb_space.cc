// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb_space.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

namespace stepscope {
namespace {

using KeyRange = std::pair<std::string, std::string>;

constexpr int kMostRounds = 100;
/// What a guess moves is on disk twice until all of an old file is moved.
constexpr int kMostGuesses = 8;

struct Garbage {
  rocksdb::ColumnFamilyMetaData files;
  std::set<uint64_t> wasteful;  ///< numbers of blob files that are a quarter garbage or more
  uint64_t garbage = 0;
  uint64_t total = 0;
};

Garbage LookForGarbage(const OpenDb& open) {
  Garbage found;
  open.db().GetColumnFamilyMetaData(open.family(Family::kBlocks), &found.files);
  for (const rocksdb::BlobMetaData& blob : found.files.blob_files) {
    found.garbage += blob.garbage_blob_bytes;
    found.total += blob.total_blob_bytes;
    if (blob.garbage_blob_bytes > 0 && blob.garbage_blob_bytes * 4 >= blob.total_blob_bytes) {
      found.wasteful.insert(blob.blob_file_number);
    }
  }
  return found;
}

/// A table file whose oldest blob file is wasteful; else, where much is garbage, the one with the oldest blobs, which may refer
/// to a wasteful file behind them. Each is taken once: its blobs are in new files then. Files of level 0 span all keys: moving
/// what one touches would be moving everything.
std::optional<KeyRange> NextToMove(const Garbage& found, std::set<std::string>& taken, int* guesses) {
  const rocksdb::SstFileMetaData* oldest = nullptr;
  for (const rocksdb::LevelMetaData& level : found.files.levels) {
    for (const rocksdb::SstFileMetaData& table : level.files) {
      if (level.level == 0 || table.oldest_blob_file_number == 0 || taken.contains(table.name)) continue;
      if (found.wasteful.contains(table.oldest_blob_file_number)) {
        taken.insert(table.name);
        return KeyRange{table.smallestkey, table.largestkey};
      }
      const bool older = oldest == nullptr || table.oldest_blob_file_number < oldest->oldest_blob_file_number;
      if (older && table.oldest_blob_file_number < *found.wasteful.rbegin()) oldest = &table;
    }
  }
  if (oldest == nullptr || found.garbage * 4 <= found.total || (*guesses)-- <= 0) return std::nullopt;
  taken.insert(oldest->name);
  return KeyRange{oldest->smallestkey, oldest->largestkey};
}

}  // namespace

rocksdb::Status CompactKeys(const OpenDb& open, Family family, const std::string& begin, const std::string& end) {
  rocksdb::CompactRangeOptions compact;
  compact.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kForce;
  compact.blob_garbage_collection_policy = rocksdb::BlobGarbageCollectionPolicy::kForce;
  compact.blob_garbage_collection_age_cutoff = 1.0;
  const rocksdb::Slice first(begin), last(end);
  return open.db().CompactRange(compact, open.family(family), &first, end.empty() ? nullptr : &last);
}

rocksdb::Status CollectBlobGarbage(const OpenDb& open) {
  std::set<std::string> taken;
  int guesses = kMostGuesses;
  for (int round = 0; round < kMostRounds; ++round) {
    const Garbage found = LookForGarbage(open);
    if (found.wasteful.empty() || found.garbage * 10 <= found.total) break;
    const std::optional<KeyRange> next = NextToMove(found, taken, &guesses);
    if (!next) break;
    const rocksdb::Status moved = CompactKeys(open, Family::kBlocks, next->first, next->second);
    if (!moved.ok()) return moved;
  }
  return rocksdb::Status::OK();
}

}  // namespace stepscope
