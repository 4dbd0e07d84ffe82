// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/process_clock.h"

#include <fmt/format.h>
#include <unistd.h>

namespace stepscope {
std::optional<ProcStat> ProcessClock::ReadStat(ProcessKey process) const {
  auto stat = ReadProcStat(process.pid, proc_);
  if (stat && stat->start_ticks != process.start_ticks) stat.reset();
  return stat;
}

std::optional<ThreadSums> ProcessClock::MainThread(ProcessKey process) const {
  if (!ReadStat(process)) return std::nullopt;
  return ReadThreadSums(proc_, process.pid.value, process.pid.value);
}

std::optional<int64_t> ProcessClock::CpuNs(ProcessKey process) const {
  const auto stat = ReadStat(process);
  if (!stat) return std::nullopt;
  return stat->cpu_ticks * (kNsPerSecond / sysconf(_SC_CLK_TCK));
}

std::optional<Pid> ProcessClock::Parent(ProcessKey process) const {
  const auto stat = ReadStat(process);
  if (!stat) return std::nullopt;
  return stat->parent;
}

std::string ProcessClock::SchedStatProblem() const {
  const std::string path = proc_ + "/self/schedstat";
  if (access(path.c_str(), R_OK) == 0) return "";
  return fmt::format("unknown: {} is not readable; run a kernel with CONFIG_SCHED_INFO", path);
}

}  // namespace stepscope
