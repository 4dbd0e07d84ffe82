// SPDX-License-Identifier: Apache-2.0
// The loaded scheduling programs: load once, attach while something is tracked, read rings and books. Owns every BPF handle.
// Used by the sched thread only, after Load.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/unique_fd.h"
#include "contract/sched_record.h"

struct sched;        // generated skeleton
struct ring_buffer;  // libbpf

namespace stepscope {

struct SchedProgramOptions {
  uint32_t ring_bytes = 4u << 20;  ///< of each ring; power of two, at least one page
  uint32_t cpus_per_ring = 16;
  bool as_histogram = false;    ///< turns and waits are counted in the kernel, by length, instead of written one by one
  bool use_task_state = false;  ///< take the switch program of kernels whose tracepoint lacks prev_state
  std::string btf_path = "/sys/kernel/btf/vmlinux";
};

class SchedPrograms {
 public:
  using RecordHandler = std::function<void(std::span<const std::byte>)>;

  /// Loads the programs; nothing runs yet. The error names the step, its errno and what to change. `on_record` is called by
  /// Consume for each record.
  static absl::StatusOr<std::unique_ptr<SchedPrograms>> Load(const SchedProgramOptions& options, RecordHandler on_record);
  ~SchedPrograms();
  SchedPrograms(const SchedPrograms&) = delete;
  SchedPrograms& operator=(const SchedPrograms&) = delete;

  absl::Status Attach();
  void Detach();
  bool attached() const { return attached_; }

  /// Makes the state of every thread `tgid` has now. Threads without one are not recorded, and their turns counted as lost; those
  /// made after SetClass bring theirs.
  absl::Status PrepareThreads(int32_t tgid);
  void SetClass(int32_t tgid, uint8_t klass);
  uint8_t ClassOf(int32_t tgid) const;
  /// Takes every process out of `klass`, and says whether there was any.
  bool ClearClass(uint8_t klass);

  size_t ring_count() const { return rings_.size(); }
  /// Readable when a ring passed another eighth of its size since the last time (edge: once per crossing).
  int wake_fd() const { return epoll_.get(); }
  /// Reads every ring until it is empty.
  absl::Status Consume();
  /// What every recorded thread does now; some 1 µs per thread of the machine.
  absl::StatusOr<std::vector<stepscope_open_turn>> OpenTurns() const;
  /// Mode as_histogram: turns and waits of a class since Load, of all CPUs.
  absl::StatusOr<stepscope_sched_histogram> Histogram(uint8_t klass) const;
  /// What each CPU wrote and lost for a class since Load.
  absl::StatusOr<std::vector<stepscope_sched_books>> Books(uint8_t klass) const;

 private:
  SchedPrograms() = default;
  absl::Status OpenAndLoad(const SchedProgramOptions& options);
  absl::Status CreateRings(const SchedProgramOptions& options);
  absl::Status ForgetCpus();
  static int OnRecord(void* self, void* data, size_t size);

  RecordHandler on_record_;
  ::sched* skeleton_ = nullptr;
  ::ring_buffer* reader_ = nullptr;
  std::vector<unique_fd> rings_;
  unique_fd epoll_;
  bool attached_ = false;
};

}  // namespace stepscope
