// SPDX-License-Identifier: Apache-2.0
// grpc.health.v1 with a descriptor, so that reflection shows it and grpcurl can call it (gRPC's built-in one has none).
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <set>
#include <string>

#include "grpc/health/v1/health.grpc.pb.h"

namespace stepscope {

class HealthService final : public grpc::health::v1::Health::CallbackService {
 public:
  /// `services`: the names that have a state; "" (the whole server) always has.
  explicit HealthService(std::set<std::string> services) : services_(std::move(services)) { services_.insert(""); }
  /// From now on NOT_SERVING. Watchers see their stream end with the server.
  void Leave() { serving_ = false; }

  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext* context, const grpc::health::v1::HealthCheckRequest* request,
                                  grpc::health::v1::HealthCheckResponse* response) override;
  grpc::ServerWriteReactor<grpc::health::v1::HealthCheckResponse>* Watch(
      grpc::CallbackServerContext* context, const grpc::health::v1::HealthCheckRequest* request) override;

 private:
  std::set<std::string> services_;
  std::atomic<bool> serving_ = true;
};

}  // namespace stepscope
