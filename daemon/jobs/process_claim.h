// SPDX-License-Identifier: Apache-2.0
// Which job a process that no followed tree knows belongs to, by the kernel's word (uid, cgroups) first and its environment's
// second. The JobTable opens or joins that job; uid and tenant are part of its key, so nobody joins another's.
#pragma once

#include <string>
#include <vector>

#include "daemon/jobs/job_identity.h"
#include "daemon/jobs/job_table.h"

namespace stepscope {

/// `chain` is Ancestry(process). The root is the process itself; where nothing gives an id and a launcher (torchrun, mpirun)
/// started it, the launcher, so that its ranks are one job. A process that is gone cannot prove its tenant and joins no job of
/// others: those of a user that claim the same id are one job of the tenant "unknown", "ID-unseen", or "unseen" where none has an
/// id.
StartJobSpec ClaimOf(const std::vector<ProcessKey>& chain, uint32_t uid, Facts facts, const std::string& proc);

}  // namespace stepscope
