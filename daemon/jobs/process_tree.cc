// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/process_tree.h"

#include <fmt/format.h>

#include <fstream>
#include <string>

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
  if (!stat || stat->start_ticks != process.start_ticks) return chain;  // its pid may be another's by now
  while (stat && stat->parent.value > 1 && chain.size() < kDeepest) {
    stat = ReadProcStat(stat->parent, proc);
    if (stat) chain.push_back({stat->pid, stat->start_ticks});
  }
  return chain;
}

bool IsAlive(ProcessKey process, const std::string& proc) {
  const auto stat = ReadProcStat(process.pid, proc);
  return stat && stat->start_ticks == process.start_ticks && !HasEnded(*stat);
}

bool HasVariable(Pid pid, std::string_view name, const std::string& proc) {
  std::ifstream environment(fmt::format("{}/{}/environ", proc, pid.value));
  for (std::string entry; std::getline(environment, entry, '\0');) {
    if (entry.starts_with(name) && entry.size() > name.size() && entry[name.size()] == '=') return true;
  }
  return false;
}

}  // namespace stepscope
