// SPDX-License-Identifier: Apache-2.0
// The ranks of a run and the processes that work for them. A loader worker inherits RANK from its rank's process; only the
// outermost process with a rank is the rank.
#pragma once

#include <cstdint>
#include <vector>

#include "daemon/jobs/job_entry.h"
#include "daemon/jobs/rank_facts.h"

namespace stepscope {

/// `chain`: a process and its ancestors, innermost first.
void LearnAncestry(JobEntry& entry, const std::vector<ProcessKey>& chain);

/// Takes what a process says about its rank; a later restart of a rank replaces the earlier one.
void AddRank(JobEntry& entry, ProcessKey process, const RankFacts& facts);

/// Its own rank, or that of its nearest ancestor with one; -1 = none.
int32_t RankOf(const JobEntry& entry, ProcessKey process);

}  // namespace stepscope
