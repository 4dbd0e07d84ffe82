// SPDX-License-Identifier: Apache-2.0
// RingFile: the daemon's side of a ring file (contract/ring.h). It only ever preads and checks the copy; the file belongs to a
// process that may write anything into it at any time, so nothing is mapped and nothing read once is believed later.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "contract/ring.h"

namespace stepscope {

class RingFile {
 public:
  /// Takes a descriptor received from an agent. INVALID_ARGUMENT names what it is not: tmpfs, sealed SHRINK|GROW|SEAL, of
  /// `file_bytes`, a ring file of `session`.
  static absl::StatusOr<RingFile> Open(unique_fd fd, const std::string& session, uint64_t file_bytes);

  absl::StatusOr<stepscope_ring_header> Header() const;
  /// Descriptors from slot 0 on. Slots are acquired lowest first: unless `all`, reading stops behind the last used ones.
  std::vector<stepscope_ring_descriptor> Descriptors(bool all) const;
  /// One descriptor, read until two readings agree on generation and head. UNAVAILABLE while it changes too fast.
  absl::StatusOr<stepscope_ring_descriptor> Descriptor(uint32_t ring) const;
  /// Bytes [from, to) of a ring. DATA_LOSS when the descriptor cannot hold them.
  absl::StatusOr<std::string> Read(const stepscope_ring_descriptor& descriptor, uint64_t from, uint64_t to) const;
  int fd() const { return fd_.get(); }
  uint64_t bytes() const { return file_bytes_; }
  /// True when `other` is the same file.
  bool SameFile(const RingFile& other) const { return device_ == other.device_ && inode_ == other.inode_; }

 private:
  RingFile() = default;
  bool ReadAt(void* to, size_t bytes, uint64_t offset) const;

  unique_fd fd_;
  uint64_t file_bytes_ = 0;
  uint32_t slots_ = 0;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace stepscope
