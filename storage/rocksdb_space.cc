// SPDX-License-Identifier: Apache-2.0
#include "storage/rocksdb_space.h"

#include <malloc.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace stepscope {
namespace {

using KeyRange = std::pair<std::string, std::string>;

constexpr int kMostRounds = 1000;

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

/// The table file with the oldest blobs of those whose oldest blob file is wasteful; else, where much is garbage, the one with
/// the oldest of all, which may refer to a wasteful file behind. So one blob file after another is emptied, and little is on disk
/// twice. Files of level 0 span all keys: moving what one touches would be moving everything.
std::optional<rocksdb::SstFileMetaData> NextToMove(const Garbage& found) {
  const rocksdb::SstFileMetaData *sure = nullptr, *guess = nullptr;
  const auto take_older = [](const rocksdb::SstFileMetaData& file, const rocksdb::SstFileMetaData** oldest) {
    if (*oldest == nullptr || file.oldest_blob_file_number < (*oldest)->oldest_blob_file_number) *oldest = &file;
  };
  for (const rocksdb::LevelMetaData& level : found.files.levels) {
    for (const rocksdb::SstFileMetaData& file : level.files) {
      const uint64_t blobs = file.oldest_blob_file_number;
      if (level.level == 0 || blobs == 0) continue;
      if (found.wasteful.contains(blobs)) take_older(file, &sure);
      if (blobs < *found.wasteful.rbegin()) take_older(file, &guess);
    }
  }
  if (sure != nullptr) return *sure;
  if (guess == nullptr || found.garbage * 4 <= found.total) return std::nullopt;
  return *guess;
}

/// Of the blobs that `keys` refer to, moves those in the oldest blob files, `moved_share` of all files; 0 = none.
rocksdb::Status Compact(const OpenDb& open, Family family, const KeyRange& keys, rocksdb::BottommostLevelCompaction bottommost,
                        double moved_share) {
  using Policy = rocksdb::BlobGarbageCollectionPolicy;
  rocksdb::CompactRangeOptions options;
  options.bottommost_level_compaction = bottommost;
  options.blob_garbage_collection_policy = moved_share > 0 ? Policy::kForce : Policy::kDisable;
  options.blob_garbage_collection_age_cutoff = moved_share;
  const rocksdb::Slice begin(keys.first), end(keys.second);
  return open.db().CompactRange(options, open.family(family), &begin, keys.second.empty() ? nullptr : &end);
}

/// Share of all blob files that stands for those up to `last`: RocksDB moves out of the files before the one with this share of
/// all before it.
double ShareUpTo(uint64_t last, const std::vector<rocksdb::BlobMetaData>& files) {
  const auto count = std::ranges::count_if(files, [=](const auto& file) { return file.blob_file_number <= last; });
  return std::min(1.0, (static_cast<double>(count) + 0.5) / static_cast<double>(files.size()));
}

}  // namespace

rocksdb::Status CompactKeys(const OpenDb& open, Family family, const std::string& begin, const std::string& end) {
  return Compact(open, family, {begin, end}, rocksdb::BottommostLevelCompaction::kForceOptimized, 0);
}

rocksdb::Status CollectBlobGarbage(const OpenDb& open) {
  std::string gathered;
  for (int round = 0; round < kMostRounds; ++round) {
    const Garbage found = LookForGarbage(open);
    if (found.wasteful.empty() || found.garbage * 10 <= found.total) break;
    const std::optional<rocksdb::SstFileMetaData> next = NextToMove(found);
    if (!next) break;
    const KeyRange keys(next->smallestkey, next->largestkey);
    // First what overlaps on other levels is brought down, without blobs. Compacting a range takes all that overlaps, level by
    // level: one file near the top can span much of the store, and all blobs of that would be there twice. Still the same file
    // then: nothing else has keys between its own.
    const bool alone = std::exchange(gathered, next->name) == next->name;
    const uint64_t last = *found.wasteful.lower_bound(next->oldest_blob_file_number);
    using Bottommost = rocksdb::BottommostLevelCompaction;
    const rocksdb::Status done =
        alone ? Compact(open, Family::kBlocks, keys, Bottommost::kForce, ShareUpTo(last, found.files.blob_files))
              : Compact(open, Family::kBlocks, keys, Bottommost::kSkip, 0);
    if (!done.ok()) return done;
    if (alone) malloc_trim(0);  // gigabytes go through small buffers between which others stay: pages pile up
  }
  return rocksdb::Status::OK();
}

}  // namespace stepscope
