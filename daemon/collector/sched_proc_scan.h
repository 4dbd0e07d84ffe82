// SPDX-License-Identifier: Apache-2.0
// Reads of procfs the sched collector needs to find processes that were there before it. Every read may meet a process that
// is gone by then: that is an empty answer, not an error. `root` is the seam ("/proc" in production).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/proc_stat.h"

namespace stepscope {

/// Ids as the process sees itself: the last entries of NSpid and NStgid, and the inode of that pid namespace (0 = not readable).
struct InnerIds {
  int32_t tid = 0;
  int32_t tgid = 0;
  uint32_t pid_namespace = 0;
};

class ProcScan {
 public:
  explicit ProcScan(std::string root) : root_(std::move(root)) {}

  std::optional<ProcStat> Stat(int32_t pid) const;
  /// Of one thread: its own name and start.
  std::optional<ProcStat> ThreadStat(int32_t pid, int32_t tid) const;
  /// Effective user of a process.
  std::optional<uint32_t> Uid(int32_t pid) const;
  /// Host tids of a process. A main thread that has ended is listed by procfs while others run or nobody has waited for the
  /// process, and is not among them.
  std::vector<int32_t> Threads(int32_t pid) const;
  /// Any bytes, none included; nullopt if the thread is gone.
  std::optional<std::string> Comm(int32_t pid, int32_t tid) const;
  /// Arguments joined by blanks; empty for a process without (zombies).
  std::string Command(int32_t pid) const;
  InnerIds Inner(int32_t pid, int32_t tid) const;
  /// Stat of every process.
  std::vector<ProcStat> All() const;

 private:
  std::string root_;
};

}  // namespace stepscope
