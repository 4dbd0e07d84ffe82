// SPDX-License-Identifier: Apache-2.0
// Which job an environment speaks of: kind, id and attempt, from the names schedulers and launchers set (the agent's allow-list,
// agent/core/facts.cc). An id of "none" or "" is no id: the first is torchrun's default.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace stepscope {

struct JobIdentity {
  std::string kind;
  std::string id;
  uint32_t attempt = 0;  ///< the scheduler's requeue number
};

using Facts = std::map<std::string, std::string>;

/// Order: an explicit STEPSCOPE_JOB (`--job`), Slurm, TorchX, SageMaker, torchrun.
std::optional<JobIdentity> IdentityFromFacts(const Facts& facts);

/// A fact that is a whole number >= 0; nullopt for anything else.
std::optional<int32_t> IntFact(const Facts& facts, const std::string& key);

}  // namespace stepscope
