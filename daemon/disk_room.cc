// SPDX-License-Identifier: Apache-2.0
#include "daemon/disk_room.h"

#include <fmt/format.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>

namespace stepscope {
namespace {

constexpr uint64_t kGigabyte = 1'000'000'000;
constexpr uint64_t kToOpen = 1 << 20;

struct Disk {
  uint64_t bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t free_for_us = 0;  ///< root may use what is kept from others
};

Disk DiskOf(const std::string& path) {
  struct statvfs disk{};
  if (statvfs(path.c_str(), &disk) != 0) return {};
  const uint64_t free_bytes = disk.f_bavail * disk.f_frsize;
  return {disk.f_blocks * disk.f_frsize, free_bytes, geteuid() == 0 ? disk.f_bfree * disk.f_frsize : free_bytes};
}

uint64_t LeftFree(const Disk& disk, int64_t min_free_bytes) {
  if (min_free_bytes > 0) return static_cast<uint64_t>(min_free_bytes);
  return std::min(std::max(kGigabyte, disk.bytes / 50), disk.bytes / 4);
}

double InGigabytes(uint64_t bytes) { return static_cast<double>(bytes) / static_cast<double>(kGigabyte); }

}  // namespace

uint64_t BytesToLeave(const std::string& path, int64_t min_free_bytes) { return LeftFree(DiskOf(path), min_free_bytes); }

uint64_t FreeBytes(const std::string& path) { return DiskOf(path).free_bytes; }

absl::Status HasRoom(const std::string& path, int64_t min_free_bytes) {
  const Disk disk = DiskOf(path);
  const uint64_t wanted = LeftFree(disk, min_free_bytes);
  if (disk.bytes == 0 || disk.free_bytes >= wanted) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "{}: {:.3f} GB free, less than store.min_free_bytes ({:.3f} GB): nothing is taken from sources; free some space or "
      "move store.path",
      path, InGigabytes(disk.free_bytes), InGigabytes(wanted)));
}

absl::Status HasRoomToOpen(const std::string& path) {
  const Disk disk = DiskOf(path);
  if (disk.bytes == 0 || disk.free_for_us >= kToOpen) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      fmt::format("{}: {} bytes free, and a store needs {} to be opened; free some space or move store.path", path,
                  disk.free_for_us, kToOpen));
}

std::string FreeText(const std::string& path) { return fmt::format("{:.1f} GB free", InGigabytes(DiskOf(path).free_bytes)); }

}  // namespace stepscope
