// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/health_service.h"

#include "daemon/rpc/run_on_pool.h"

namespace stepscope {
namespace {

using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

/// Says the state once and keeps the stream open until the client or the server goes away.
class HealthStream final : public grpc::ServerWriteReactor<HealthCheckResponse> {
 public:
  explicit HealthStream(HealthCheckResponse::ServingStatus status) {
    response_.set_status(status);
    StartWrite(&response_);
  }

 private:
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }

  HealthCheckResponse response_;
};

}  // namespace

grpc::ServerUnaryReactor* HealthService::Check(grpc::CallbackServerContext* context, const HealthCheckRequest* request,
                                               HealthCheckResponse* response) {
  if (!services_.contains(request->service())) {
    return FinishNow(context, {grpc::StatusCode::NOT_FOUND, "no service of that name here; `grpcurl list` shows them"});
  }
  response->set_status(serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
  return FinishNow(context, grpc::Status::OK);
}

grpc::ServerWriteReactor<HealthCheckResponse>* HealthService::Watch(grpc::CallbackServerContext*,
                                                                    const HealthCheckRequest* request) {
  if (!services_.contains(request->service())) return new HealthStream(HealthCheckResponse::SERVICE_UNKNOWN);
  return new HealthStream(serving_ ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
}

}  // namespace stepscope
