// SPDX-License-Identifier: Apache-2.0
// Which of a rank's threads are worth showing live: its main thread always, then whoever spins, then whoever fell silent lately.
// Threads of a pool that have slept for minutes are nobody's news.
#pragma once

#include <vector>

#include "daemon/collector/open_turn.h"
#include "daemon/live/job_sample.h"

namespace stepscope {

/// Fills row->now from the turns of the rank's process and of the processes that work for the same rank.
void FillOpenTurns(const std::vector<OpenTurn>& turns, const JobSample& sample, RunId run, NodeTime now,
                   v1::RankUtilization* row);

}  // namespace stepscope
