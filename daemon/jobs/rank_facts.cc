// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/rank_facts.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace stepscope {
namespace {

struct RankRule {
  const char* rank;
  const char* local_rank;
  const char* world_size;
};
constexpr RankRule kLaunchers[] = {
    {"RANK", "LOCAL_RANK", "WORLD_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"},
};
/// One process per pod: its index is its rank, unless a launcher inside it says otherwise.
constexpr const char* kPodIndexes[] = {"JOB_COMPLETION_INDEX", "VC_TASK_INDEX", "VK_TASK_INDEX"};

int32_t Count(const Facts& facts, const char* key) { return IntFact(facts, key).value_or(-1); }

/// SM_HOSTS, a JSON list of names; empty when it is cut.
std::vector<std::string_view> HostsOf(const Facts& facts) {
  const auto all = facts.find("SM_HOSTS");
  std::string_view names = all == facts.end() ? std::string_view() : all->second;
  std::vector<std::string_view> hosts;
  for (size_t open = names.find('"'); open != std::string_view::npos; open = names.find('"')) {
    names.remove_prefix(open + 1);
    const size_t close = names.find('"');
    if (close == std::string_view::npos) return {};
    hosts.push_back(names.substr(0, close));
    names.remove_prefix(close + 1);
  }
  return hosts;
}

/// SageMaker starts one process per host: its rank is the place of its host in the list.
RankFacts RankOfHost(const Facts& facts) {
  const auto own = facts.find("SM_CURRENT_HOST");
  const std::vector<std::string_view> hosts = HostsOf(facts);
  RankFacts rank;
  if (own == facts.end() || own->second.empty()) return rank;
  const auto at = std::find(hosts.begin(), hosts.end(), own->second);
  if (at == hosts.end()) return rank;
  rank.rank = static_cast<int32_t>(at - hosts.begin());
  rank.local_rank = 0;
  rank.world_size = static_cast<int32_t>(hosts.size());
  return rank;
}

}  // namespace

RankFacts RankFromFacts(const Facts& facts) {
  RankFacts rank;
  for (const RankRule& launcher : kLaunchers) {
    rank.rank = Count(facts, launcher.rank);
    if (rank.rank < 0) continue;
    rank.local_rank = Count(facts, launcher.local_rank);
    rank.world_size = Count(facts, launcher.world_size);
    rank.restart = IntFact(facts, "TORCHELASTIC_RESTART_COUNT").value_or(0);
    return rank;
  }
  rank = RankOfHost(facts);
  for (const char* index : kPodIndexes) {
    if (rank.rank < 0) rank.rank = Count(facts, index);
  }
  return rank;
}

int32_t NodesFromFacts(const Facts& facts) {
  if (const auto nodes = IntFact(facts, "SLURM_NNODES")) return *nodes;
  if (const std::vector<std::string_view> hosts = HostsOf(facts); !hosts.empty()) return static_cast<int32_t>(hosts.size());
  return IntFact(facts, "GROUP_WORLD_SIZE").value_or(0);  // agents of torchrun: one a node
}

}  // namespace stepscope
