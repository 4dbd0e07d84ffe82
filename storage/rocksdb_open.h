// SPDX-License-Identifier: Apache-2.0
// Opening the store: its column families, their tuning (a small memory footprint comes first), its lock, its format version.
#pragma once

#include <array>
#include <memory>

#include "absl/status/statusor.h"
#include "rocksdb/db.h"
#include "storage/store.h"

namespace stepscope {

enum class Family : size_t { kMeta, kNames, kBlocks, kRollup, kTiles, kPosition, kUpload };
constexpr size_t kFamilies = 7;

/// Version of keys and values in the store; a higher one is refused. Raised when an older release could not read the store.
constexpr int kStoreFormat = 1;

/// The database with its column families; closes them in the right order.
class OpenDb {
 public:
  OpenDb(std::unique_ptr<rocksdb::DB> db, std::vector<rocksdb::ColumnFamilyHandle*> handles)
      : db_(std::move(db)), handles_(std::move(handles)) {}
  ~OpenDb();
  OpenDb(const OpenDb&) = delete;
  OpenDb& operator=(const OpenDb&) = delete;

  rocksdb::DB& db() const { return *db_; }
  rocksdb::ColumnFamilyHandle* family(Family family) const { return handles_[static_cast<size_t>(family)]; }
  /// Every family, those of no use to this release included.
  const std::vector<rocksdb::ColumnFamilyHandle*>& families() const { return handles_; }

 private:
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<rocksdb::ColumnFamilyHandle*> handles_;
};

absl::StatusOr<std::unique_ptr<OpenDb>> OpenRocksDb(const Store::Options& options);

}  // namespace stepscope
