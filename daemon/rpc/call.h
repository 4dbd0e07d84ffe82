// SPDX-License-Identifier: Apache-2.0
// What a handler knows about the call it serves. Handlers know no gRPC: run_on_pool.h brings the call to them.
#pragma once

#include <string>

#include "daemon/rpc/query_budget.h"

namespace stepscope {

struct Call {
  std::string peer;  ///< as grpc::ServerContext::peer() gives it
  QueryBudget budget;
};

}  // namespace stepscope
