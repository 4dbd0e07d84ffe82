// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/rank_facts.h"

#include <string>
#include <string_view>

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

/// SageMaker starts one process per host: its rank is the place of its host in SM_HOSTS, a JSON list of names.
RankFacts RankOfHost(const Facts& facts) {
  const auto own = facts.find("SM_CURRENT_HOST");
  const auto all = facts.find("SM_HOSTS");
  RankFacts rank;
  if (own == facts.end() || all == facts.end() || own->second.empty()) return rank;
  std::string_view names = all->second;
  int32_t hosts = 0;
  for (size_t open = names.find('"'); open != std::string_view::npos; open = names.find('"')) {
    names.remove_prefix(open + 1);
    const size_t close = names.find('"');
    if (close == std::string_view::npos) return {};
    if (names.substr(0, close) == own->second) rank.rank = hosts;
    names.remove_prefix(close + 1);
    ++hosts;
  }
  if (rank.rank < 0) return rank;
  rank.local_rank = 0;
  rank.world_size = hosts;
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

}  // namespace stepscope
