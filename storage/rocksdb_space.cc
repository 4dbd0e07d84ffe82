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

/// A table file whose oldest blob file is wasteful; else, one that may refer to a wasteful file behind an older one. Each is
/// taken once: its blobs are in new files then.
std::optional<KeyRange> NextToMove(const Garbage& found, std::set<std::string>& taken) {
  for (const bool exact : {true, false}) {
    if (!exact && found.garbage * 4 <= found.total) break;  // it would move much that is live
    for (const rocksdb::LevelMetaData& level : found.files.levels) {
      if (level.level == 0) continue;  // such a file spans all keys: moving what it touches would be moving everything at once
      for (const rocksdb::SstFileMetaData& table : level.files) {
        const uint64_t oldest = table.oldest_blob_file_number;
        if (oldest == 0) continue;
        const bool refers = exact ? found.wasteful.contains(oldest) : oldest < *found.wasteful.rbegin();
        if (refers && taken.insert(table.name).second) return KeyRange{table.smallestkey, table.largestkey};
      }
    }
  }
  return std::nullopt;
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
  for (int round = 0; round < kMostRounds; ++round) {
    const Garbage found = LookForGarbage(open);
    if (found.wasteful.empty() || found.garbage * 10 <= found.total) break;
    const std::optional<KeyRange> next = NextToMove(found, taken);
    if (!next) break;
    const rocksdb::Status moved = CompactKeys(open, Family::kBlocks, next->first, next->second);
    if (!moved.ok()) return moved;
  }
  return rocksdb::Status::OK();
}

}  // namespace stepscope
