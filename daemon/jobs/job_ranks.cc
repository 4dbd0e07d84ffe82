// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/job_ranks.h"

#include <algorithm>

namespace stepscope {
namespace {

constexpr int kDeepest = 128;

bool Descends(const JobEntry& entry, ProcessKey process, ProcessKey ancestor) {
  for (int depth = 0; depth < kDeepest; ++depth) {
    const auto it = entry.parent.find(process);
    if (it == entry.parent.end()) return false;
    process = it->second;
    if (process == ancestor) return true;
  }
  return false;
}

}  // namespace

void LearnAncestry(JobEntry& entry, const std::vector<ProcessKey>& chain) {
  for (size_t i = 0; i + 1 < chain.size(); ++i) entry.parent[chain[i]] = chain[i + 1];
}

void AddRank(JobEntry& entry, ProcessKey process, const RankFacts& facts) {
  if (facts.rank < 0) return;
  auto& ranks = entry.snapshot.ranks;
  const bool is_known = std::ranges::any_of(ranks, [&](const RankInfo& known) {
    if (known.rank != facts.rank) return false;
    return known.process == process || Descends(entry, process, known.process) || facts.restart < known.restart;
  });
  if (is_known) return;
  // Several: each of its workers that was heard before it stands for the rank until now.
  std::erase_if(ranks, [&](const RankInfo& known) {
    if (known.rank != facts.rank) return false;
    return Descends(entry, known.process, process) || facts.restart > known.restart || !known.alive;
  });
  ranks.push_back({facts.rank, facts.local_rank, facts.world_size, facts.restart, process, true});
  std::ranges::sort(ranks, {}, &RankInfo::rank);
}

int32_t RankOf(const JobEntry& entry, ProcessKey process) {
  for (int depth = 0; depth < kDeepest; ++depth) {
    for (const RankInfo& rank : entry.snapshot.ranks) {
      if (rank.process == process) return rank.rank;
    }
    const auto it = entry.parent.find(process);
    if (it == entry.parent.end()) return -1;
    process = it->second;
  }
  return -1;
}

}  // namespace stepscope
