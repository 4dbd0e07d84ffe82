// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/process_claim.h"

#include "base/proc_stat.h"
#include "daemon/jobs/cgroup_path.h"
#include "daemon/jobs/process_tree.h"

namespace stepscope {
namespace {

/// Set by a launcher in the processes it starts, and not in its own environment.
constexpr const char* kLauncherMarks[] = {"TORCHELASTIC_RUN_ID", "OMPI_COMM_WORLD_RANK"};

/// The launcher above the process: the first ancestor without its mark, if it is of the same user and tenant.
ProcessKey LauncherOf(const std::vector<ProcessKey>& chain, uint32_t uid, const std::string& tenant, const Facts& facts,
                      const std::string& proc) {
  for (const char* mark : kLauncherMarks) {
    if (!facts.contains(mark)) continue;
    for (size_t i = 1; i < chain.size(); ++i) {
      const auto place = ReadCgroups(chain[i], proc);
      if (!place || place->tenant != tenant || ReadProcUid(chain[i].pid, proc) != uid) return chain[i - 1];
      if (!HasVariable(chain[i].pid, mark, proc)) return chain[i];
    }
    return chain.back();
  }
  return chain.front();
}

}  // namespace

StartJobSpec ClaimOf(const std::vector<ProcessKey>& chain, uint32_t uid, Facts facts, const std::string& proc) {
  StartJobSpec spec;
  spec.uid = uid;
  spec.kind = "api";
  spec.root = chain.front();
  const auto place = ReadCgroups(chain.front(), proc);
  if (!place) {
    const auto identity = IdentityFromFacts(facts);
    spec.tenant = "unknown";
    spec.id = identity ? identity->id + "-unseen" : "unseen";
    return spec;
  }
  spec.tenant = place->tenant;
  if (!place->slurm_job.empty()) facts["SLURM_JOB_ID"] = place->slurm_job;
  if (const auto identity = IdentityFromFacts(facts)) {
    spec.kind = identity->kind;
    spec.id = identity->id;
    spec.attempt = identity->attempt;
  } else if (place->in_kubernetes) {
    // Last, because a pod is one node's; an id from the environment is the same on all of them.
    spec.kind = "k8s";
    spec.id = place->pod;
  } else {
    spec.root = LauncherOf(chain, uid, spec.tenant, facts, proc);
  }
  return spec;
}

}  // namespace stepscope
