// SPDX-License-Identifier: Apache-2.0
// /proc/PID/stat and the user of a process, read in one place (proc_pid_stat(5), proc_pid_status(5)). A process may be gone at
// any time: that is an empty answer, not an error. A root path ("/proc" in production) is the seam for trees made by tests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/ids.h"

namespace stepscope {

struct ProcStat {
  Pid pid;
  std::string comm;
  char state = '?';         ///< R S D Z …
  bool is_exiting = false;  ///< its main thread has left user code for good
  Pid parent;
  int64_t cpu_ticks = 0;  ///< user + system of all threads, in clock ticks (sysconf(_SC_CLK_TCK))
  int32_t threads = 0;
  int64_t start_ticks = 0;  ///< clock ticks since boot; with the pid it names one process for ever
};

/// nullopt for a line that is cut or is not one.
std::optional<ProcStat> ParseProcStat(std::string_view line);

/// Whether nothing of the process runs any more. The state alone is its main thread's, which others may outlive.
bool HasEnded(const ProcStat& stat);

/// nullopt when the process is gone.
std::optional<ProcStat> ReadProcStat(Pid pid, const std::string& proc = "/proc");

/// Effective uid, as SO_PEERCRED gives it; nullopt when the process is gone.
std::optional<uint32_t> ReadProcUid(Pid pid, const std::string& proc = "/proc");

/// All of a file of procfs, sysfs or a cgroup, up to `most_bytes`; empty when it cannot be read.
std::string ReadProcFile(const std::string& path, size_t most_bytes = 64 << 10);

}  // namespace stepscope
