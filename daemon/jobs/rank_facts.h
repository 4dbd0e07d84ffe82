// SPDX-License-Identifier: Apache-2.0
// Which rank a process is, from the variables launchers set (the agent's allow-list, agent/core/facts.cc). One launcher's names
// are never mixed with another's: under Slurm, torchrun's RANK and Slurm's SLURM_LOCALID count different things.
#pragma once

#include <cstdint>

#include "daemon/jobs/job_identity.h"

namespace stepscope {

struct RankFacts {
  int32_t rank = -1;  ///< -1 = the process has none
  int32_t local_rank = -1;
  int32_t world_size = -1;
  int32_t restart = 0;  ///< elastic restart inside the attempt
};

/// The innermost launcher's word: torchrun (or a plain RANK), Open MPI, Slurm, SageMaker, then the index of a Kubernetes or
/// Volcano pod.
RankFacts RankFromFacts(const Facts& facts);

/// Nodes the job has, as its scheduler or launcher says; 0 = none says.
int32_t NodesFromFacts(const Facts& facts);

}  // namespace stepscope
