// SPDX-License-Identifier: Apache-2.0
// Who took the CPU from the processes of a job, for GetSummary.
#pragma once

#include <map>

#include "analysis/cpu_occupants.h"
#include "daemon/rpc/row_scan.h"
#include "stepscope/v1/query.pb.h"

namespace stepscope {

/// Fills the occupants of each process of `processes`, largest first, little ones taken together.
void FillOccupants(const RpcParts& parts, RunId run, const CpuOccupants& occupants, const LaneFacts& lanes,
                   std::map<ProcessKey, v1::ProcessSummary>* processes);

}  // namespace stepscope
