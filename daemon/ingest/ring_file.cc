// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/ring_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/status.h"

namespace stepscope {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr size_t kSlotsAtOnce = 8;

bool Used(const stepscope_ring_descriptor& d) { return d.state != STEPSCOPE_RING_FREE || d.generation != 0 || d.head != 0; }

/// Seals come first: asking for them is the one call on a file that no program behind it answers.
absl::StatusOr<struct stat> CheckSealedTmpfs(int fd, uint64_t file_bytes) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0) return absl::InvalidArgumentError("the ring file is not a memfd");
  if ((seals & kSeals) != kSeals) {
    return absl::InvalidArgumentError("the ring file is not sealed against shrinking, growing and more seals");
  }
  struct stat file{};
  struct statfs fs{};
  if (fstat(fd, &file) != 0 || fstatfs(fd, &fs) != 0) return ErrnoStatus(errno, "fstat(ring file)");
  if (fs.f_type != TMPFS_MAGIC || !S_ISREG(file.st_mode)) return absl::InvalidArgumentError("the ring file is not a memfd");
  const auto size = static_cast<uint64_t>(file.st_size);
  if (size != file_bytes || size < STEPSCOPE_RING_ALIGNMENT || size > STEPSCOPE_RING_FILE_MAX_BYTES) {
    return absl::InvalidArgumentError(fmt::format("the ring file has {} bytes, the hello says {}", size, file_bytes));
  }
  return file;
}

}  // namespace

absl::StatusOr<RingFile> RingFile::Open(unique_fd fd, const std::string& session, uint64_t file_bytes) {
  STEPSCOPE_ASSIGN_OR_RETURN(const struct stat file, CheckSealedTmpfs(fd.get(), file_bytes));
  RingFile ring_file;
  ring_file.fd_ = std::move(fd);
  ring_file.file_bytes_ = file_bytes;
  ring_file.device_ = file.st_dev;
  ring_file.inode_ = file.st_ino;
  STEPSCOPE_ASSIGN_OR_RETURN(const stepscope_ring_header header, ring_file.Header());
  if (header.ring_slots > STEPSCOPE_RING_SLOTS || header.descriptor_bytes != STEPSCOPE_RING_DESCRIPTOR_BYTES ||
      header.header_bytes != STEPSCOPE_RING_HEADER_BYTES) {
    return absl::InvalidArgumentError("the ring file header is none this release can read");
  }
  if (std::memcmp(header.session, session.data(), sizeof(header.session)) != 0) {
    return absl::InvalidArgumentError("the ring file is of another session than its hello");
  }
  ring_file.slots_ = header.ring_slots;
  return ring_file;
}

bool RingFile::ReadAt(void* to, size_t bytes, uint64_t offset) const {
  auto* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = pread(fd_.get(), at, bytes, static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
    offset += static_cast<uint64_t>(got);
  }
  return true;
}

absl::StatusOr<stepscope_ring_header> RingFile::Header() const {
  stepscope_ring_header header{};
  if (!ReadAt(&header, sizeof(header), 0)) return absl::InvalidArgumentError("the ring file cannot be read");
  if (header.magic != STEPSCOPE_RING_MAGIC || header.version < 1)
    return absl::InvalidArgumentError("the file is not a ring file");
  return header;
}

std::vector<stepscope_ring_descriptor> RingFile::Descriptors(bool all) const {
  std::vector<stepscope_ring_descriptor> descriptors;
  while (descriptors.size() < slots_) {
    const size_t first = descriptors.size();
    const size_t count = std::min(kSlotsAtOnce, slots_ - first);
    descriptors.resize(first + count);
    const uint64_t offset = STEPSCOPE_RING_HEADER_BYTES + first * STEPSCOPE_RING_DESCRIPTOR_BYTES;
    const bool read = ReadAt(&descriptors[first], count * STEPSCOPE_RING_DESCRIPTOR_BYTES, offset);
    if (!read) descriptors.resize(first);
    if (!read || (!all && std::none_of(descriptors.begin() + static_cast<std::ptrdiff_t>(first), descriptors.end(), Used))) break;
  }
  return descriptors;
}

absl::StatusOr<stepscope_ring_descriptor> RingFile::Descriptor(uint32_t ring) const {
  if (ring >= slots_) return absl::InvalidArgumentError(fmt::format("ring {} of {}", ring, slots_));
  const uint64_t offset = STEPSCOPE_RING_HEADER_BYTES + uint64_t{ring} * STEPSCOPE_RING_DESCRIPTOR_BYTES;
  stepscope_ring_descriptor last{};
  for (int i = 0; i < 16; ++i) {
    stepscope_ring_descriptor now{};
    if (!ReadAt(&now, sizeof(now), offset)) return absl::DataLossError("the ring file cannot be read");
    if (i > 0 && now.head == last.head && now.generation == last.generation) return now;
    last = now;
  }
  return absl::UnavailableError(fmt::format("ring {} changes faster than it can be read", ring));
}

absl::StatusOr<std::string> RingFile::Read(const stepscope_ring_descriptor& d, uint64_t from, uint64_t to) const {
  const bool sound = std::has_single_bit(d.data_bytes) && d.data_bytes <= file_bytes_ &&
                     d.data_offset >= STEPSCOPE_RING_ALIGNMENT && d.data_offset <= file_bytes_ - d.data_bytes;
  if (!sound || to < from || to - from > d.data_bytes) return absl::DataLossError("the ring descriptor makes no sense");
  std::string bytes(to - from, '\0');
  const uint64_t start = from % d.data_bytes;
  const size_t first = std::min<uint64_t>(bytes.size(), d.data_bytes - start);
  if (!ReadAt(bytes.data(), first, d.data_offset + start) || !ReadAt(bytes.data() + first, bytes.size() - first, d.data_offset)) {
    return absl::DataLossError("the ring file cannot be read");
  }
  return bytes;
}

}  // namespace stepscope
