// SPDX-License-Identifier: Apache-2.0
// Giving disk space back. Blocks of 512 bytes and more are blobs: deleting their keys frees nothing until compaction has dropped
// the references, and a blob file goes only when nothing in it is referred to any more. A young blob file holds what every table
// wrote during some seconds, and not all tables are evicted at once: what is live in files with much garbage is moved into
// others.
//
// (rocksdb::DeleteFilesInRange would be quicker, but in this RocksDB it leaks the blob files.)
#pragma once

#include <string>

#include "rocksdb/status.h"
#include "storage/rocksdb_open.h"

namespace stepscope {

/// Compacts the keys in [begin, end), so that what is deleted there is garbage; an empty `end` is no bound.
rocksdb::Status CompactKeys(const OpenDb& open, Family family, const std::string& begin, const std::string& end);

/// Moves live blobs out of blob files that are a quarter garbage or more, oldest first, until no more than a tenth of all blob
/// bytes is garbage or nothing helps.
rocksdb::Status CollectBlobGarbage(const OpenDb& open);

}  // namespace stepscope
