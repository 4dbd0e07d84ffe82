// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/process_tree.h"

#include <fmt/format.h>

#include "base/proc_stat.h"

namespace stepscope {
absl::StatusOr<int64_t> ReadStartTicks(Pid pid, const std::string& proc) {
  const auto stat = ReadProcStat(pid, proc);
  if (!stat) return absl::NotFoundError(fmt::format("process {} is gone", pid.value));
  return stat->start_ticks;
}

std::vector<ProcessKey> Ancestry(ProcessKey process, const std::string& proc) {
  constexpr size_t kDeepest = 128;
  std::vector<ProcessKey> chain{process};
  auto stat = ReadProcStat(process.pid, proc);
  while (stat && stat->parent.value > 1 && chain.size() < kDeepest) {
    stat = ReadProcStat(stat->parent, proc);
    if (stat) chain.push_back({stat->pid, stat->start_ticks});
  }
  return chain;
}

bool IsAlive(ProcessKey process, const std::string& proc) {
  const auto stat = ReadProcStat(process.pid, proc);
  return stat && stat->start_ticks == process.start_ticks && stat->state != 'Z' && stat->state != 'X';
}

}  // namespace stepscope
