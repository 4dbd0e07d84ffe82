// SPDX-License-Identifier: Apache-2.0
// Whether the store's file system has room to write. Below `min_free_bytes` nothing is committed, so that the disk is never
// filled to the last byte by the daemon and the store keeps what it needs to go on.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace stepscope {

/// What to leave free of the file system of `path`, given store.min_free_bytes: 0 = 1 GB or 2 % of it, whichever is more, and
/// never more than a quarter of it.
uint64_t BytesToLeave(const std::string& path, int64_t min_free_bytes);

/// Of the file system of `path`, for us; 0 if it cannot be asked.
uint64_t FreeBytes(const std::string& path);

/// RESOURCE_EXHAUSTED with both numbers when less than BytesToLeave() is free. OK when it cannot be asked: the write will tell.
absl::Status HasRoom(const std::string& path, int64_t min_free_bytes);

/// RESOURCE_EXHAUSTED when there is no room for the first files of a store: RocksDB asserts that it can write them, and so ends
/// the process.
absl::Status HasRoomToOpen(const std::string& path);

/// "12.3 GB free".
std::string FreeText(const std::string& path);

}  // namespace stepscope
