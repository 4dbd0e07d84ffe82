// SPDX-License-Identifier: Apache-2.0
// RocksDB's errors as ours: the canonical code, the thing, the cause, the next step.
#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "rocksdb/status.h"

namespace stepscope {

/// "store PATH: <what>: <cause>; <next step>". A full disk is RESOURCE_EXHAUSTED, missing rights PERMISSION_DENIED, damage
/// DATA_LOSS, anything else of the file system UNAVAILABLE.
absl::Status RocksDbStatus(const rocksdb::Status& status, std::string_view path, std::string_view what);

/// True when `status` says that another opener holds the LOCK file.
bool IsLockConflict(const rocksdb::Status& status);
/// FAILED_PRECONDITION naming the process that holds the lock, as far as the kernel tells.
absl::Status LockConflict(const rocksdb::Status& status, std::string_view path);

}  // namespace stepscope
