// SPDX-License-Identifier: Apache-2.0
// Which job an environment speaks of: (kind, id), attempt and rank, from the names schedulers and launchers set.
// Order: an explicit STEPSCOPE_JOB, Slurm, Kubernetes/TorchX, SageMaker, torchrun. An id of "none" or "" is no id.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace stepscope {

struct JobIdentity {
  std::string kind;
  std::string id;
  uint32_t attempt = 0;
};
struct RankFacts {
  int32_t rank = -1;
  int32_t local_rank = -1;
  int32_t world_size = -1;
  int32_t restart = 0;
};

using Facts = std::map<std::string, std::string>;

std::optional<JobIdentity> IdentityFromFacts(const Facts& facts);
RankFacts RankFromFacts(const Facts& facts);

}  // namespace stepscope
