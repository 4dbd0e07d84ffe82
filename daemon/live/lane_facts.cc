// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/lane_facts.h"

#include <fmt/format.h>

#include "base/valid_utf8.h"

namespace stepscope {
namespace {

struct ProcessFact {
  int32_t rank = -1;
  std::string name;
};

LaneFact FromKey(const EntityInfo& info) {
  LaneFact fact;
  fact.kind = info.key.kind;
  fact.name = ValidUtf8(info.key.kind == EntityKind::kMetric ? info.key.text : info.name);
  fact.rank = info.rank;
  fact.inner_id = info.inner_id;
  if (info.key.kind == EntityKind::kProcess || info.key.kind == EntityKind::kThread || info.key.kind == EntityKind::kMetric) {
    fact.pid = static_cast<int32_t>(info.key.a);
    fact.process = {Pid{fact.pid}, info.key.b};
  }
  if (info.key.kind == EntityKind::kThread) fact.tid = static_cast<int32_t>(info.key.c);
  if (info.key.kind == EntityKind::kRank) fact.rank = static_cast<int32_t>(info.key.a);
  if (info.key.kind == EntityKind::kCpu) fact.name = fmt::format("cpu {}", info.key.a);
  return fact;
}

}  // namespace

LaneFacts::LaneFacts(const RunDictionary& dictionary, const JobTable& jobs, RunId run) {
  std::map<ProcessKey, ProcessFact> processes;
  for (const auto& [id, info] : dictionary.Entities(run)) {
    LaneFact fact = FromKey(info);
    if (!info.gil.empty()) gils_[fact.process] = info.gil;
    if (fact.kind == EntityKind::kProcess) processes[fact.process] = {fact.rank, fact.name};
    facts_.emplace(id.value, std::move(fact));
  }
  for (auto& [lane, fact] : facts_) {
    if (fact.process.pid.value == 0) continue;
    const auto [process, is_new] = processes.try_emplace(fact.process);
    if (process->second.rank < 0) process->second.rank = std::max(fact.rank, jobs.RankOf(run, fact.process));
    fact.rank = process->second.rank;
    fact.process_name = process->second.name;
  }
}

const LaneFact& LaneFacts::Of(uint32_t lane) const {
  static const LaneFact kUnknown;
  const auto it = facts_.find(lane);
  return it == facts_.end() ? kUnknown : it->second;
}

AddressRange LaneFacts::GilOf(ProcessKey process) const {
  const auto found = gils_.find(process);
  return found == gils_.end() ? AddressRange{} : found->second;
}

int64_t LaneFacts::GroupOf(uint32_t lane) const {
  const LaneFact& fact = Of(lane);
  return fact.rank >= 0 ? fact.rank : -1 - int64_t{fact.pid};
}

std::string LaneFacts::Label(uint32_t lane) const {
  if (lane == 0) return "node";
  const LaneFact& fact = Of(lane);
  switch (fact.kind) {
    case EntityKind::kProcess:
      return fact.rank >= 0 ? fmt::format("rank {} {} ({})", fact.rank, fact.name, fact.pid)
                            : fmt::format("{} ({})", fact.name, fact.pid);
    case EntityKind::kThread:
      return fmt::format("thread {} {} of process {}", fact.name, fact.tid, fact.pid);
    case EntityKind::kRank:
      return fmt::format("rank {}", fact.rank);
    default:
      return fact.name.empty() ? fmt::format("entity {}", lane) : fact.name;
  }
}

}  // namespace stepscope
