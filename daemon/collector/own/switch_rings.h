// SPDX-License-Identifier: Apache-2.0
// SwitchRings: the perf side of OwnCollector. One ring per CPU, owned by a silent event of the daemon itself; the events of
// followed threads write into them. Threads and processes made by a covered thread are covered by inheritance, without a
// descriptor; each covered thread that was found costs one descriptor per CPU.
// Used by one thread at a time.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/unique_fd.h"
#include "daemon/collector/own/switch_record.h"

namespace stepscope {

/// The mapped ring of one CPU. Reads what the kernel has published, in order, and gives the room back.
class SwitchRing {
 public:
  /// `map`: a control page and a power of two of data pages, as mmap of a perf event gives them.
  SwitchRing(void* map, size_t data_bytes) : map_(map), data_bytes_(data_bytes) {}
  /// Calls `on_record` for each whole record. False: a size in the ring is impossible, and what was in it has been dropped.
  bool Read(const std::function<void(std::span<const std::byte>)>& on_record);

 private:
  std::span<const std::byte> RecordAt(uint64_t position, uint64_t head);

  void* map_;
  size_t data_bytes_;
  std::vector<std::byte> joined_;  ///< a record that wraps around the end
};

class SwitchRings {
 public:
  /// `data_pages` of each ring, a power of two; halved until the kernel's limit on locked memory allows it. The error names the
  /// step, its errno and what to change.
  static absl::StatusOr<std::unique_ptr<SwitchRings>> Open(size_t data_pages);
  ~SwitchRings();
  SwitchRings(const SwitchRings&) = delete;
  SwitchRings& operator=(const SwitchRings&) = delete;

  /// Records thread `tid` from now on, with everything it makes.
  absl::Status Cover(RunId run, int32_t tid);
  void Uncover(RunId run);
  /// Reads every ring until it is empty; records of one CPU come in order.
  void Read(const std::function<void(SwitchRecord)>& on_record);
  /// Readable when a ring is a quarter full.
  std::span<const int> wake_fds() const { return wake_fds_; }
  uint64_t malformed() const { return malformed_; }

 private:
  struct CpuRing {
    int cpu = 0;
    unique_fd owner;
    void* map = nullptr;
    size_t map_bytes = 0;
  };
  SwitchRings() = default;
  absl::Status OpenRing(int cpu, size_t& data_pages);

  std::vector<CpuRing> rings_;
  std::vector<SwitchRing> readers_;
  std::vector<int> wake_fds_;
  std::map<RunId, std::vector<unique_fd>> events_;
  uint64_t malformed_ = 0;
};

}  // namespace stepscope
