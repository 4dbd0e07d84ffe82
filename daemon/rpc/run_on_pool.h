// SPDX-License-Identifier: Apache-2.0
// From a gRPC callback to a plain function on a pool thread and back. A handler is: authorise, validate, query, fill.
#pragma once

#include <grpcpp/grpcpp.h>

#include <string>

#include "absl/status/status.h"
#include "daemon/rpc/call.h"
#include "daemon/rpc/query_pool.h"

namespace stepscope {

inline grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

inline grpc::Status Overloaded() {
  return {grpc::StatusCode::RESOURCE_EXHAUSTED, "the daemon has 64 calls waiting already, or is stopping; try again in a second"};
}

inline grpc::Status NotBuilt(const char* method) {
  return {grpc::StatusCode::UNIMPLEMENTED, std::string(method) +
                                               " is not built yet in this release; `grpcurl list` shows the "
                                               "services and docs/limitations.md what they can do"};
}

/// Request and response live until the reactor is finished, which is the last thing the pool thread does.
template <typename Handlers, typename Request, typename Response>
grpc::ServerUnaryReactor* RunOnPool(QueryPool& pool, grpc::CallbackServerContext* context, const Request* request,
                                    Response* response, const Handlers* handlers,
                                    absl::Status (Handlers::*handler)(Call&, const Request&, Response*) const) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool queued = pool.Submit([=] {
    Call call{context->peer(), QueryBudget(context->deadline(), [context] { return context->IsCancelled(); })};
    reactor->Finish(ToGrpcStatus((handlers->*handler)(call, *request, response)));
  });
  if (!queued) reactor->Finish(Overloaded());
  return reactor;
}

inline grpc::ServerUnaryReactor* FinishNow(grpc::CallbackServerContext* context, const grpc::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(status);
  return reactor;
}

}  // namespace stepscope
