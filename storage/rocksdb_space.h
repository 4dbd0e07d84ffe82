// SPDX-License-Identifier: Apache-2.0
// Giving disk space back. Blocks of 512 bytes and more are blobs: deleting their keys frees nothing until compaction has dropped
// the references, and a blob file goes only when nothing in it is referred to any more. A young blob file holds what every table
// wrote during some seconds; compaction of one table's keys moves that table's blobs into files of their own, which later go
// whole. So each blob is moved about once, whatever is evicted in which order.
//
// (rocksdb::DeleteFilesInRange would be quicker, but in this RocksDB it leaks the blob files.)
#pragma once

#include <string>

#include "rocksdb/status.h"
#include "storage/rocksdb_open.h"

namespace stepscope {

/// Compacts the keys in [begin, end) and moves their live blobs out of the files they are in; an empty `end` is no bound.
rocksdb::Status CompactKeys(const OpenDb& open, Family family, const std::string& begin, const std::string& end);

/// Moves live blobs out of blob files that are mostly garbage, until no more than a tenth of all blob bytes is garbage or nothing
/// helps.
rocksdb::Status CollectBlobGarbage(const OpenDb& open);

}  // namespace stepscope
