// SPDX-License-Identifier: Apache-2.0
// A running RpcServer over a FakeNode and a client of it.
#pragma once

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <optional>

#include "daemon/rpc/server.h"
#include "stepscope/v1/control.grpc.pb.h"
#include "stepscope/v1/query.grpc.pb.h"
#include "tests/unit/rpc/fake_node.h"

namespace stepscope {

class RpcFixture : public testing::Test {
 protected:
  RpcFixture()
      : live_({&node_.jobs, &node_.reader, &node_.dictionary, &node_.totals, &system_clock_, {}, "/proc"}), server_(Parts()) {
    char directory[] = "/tmp/rpcXXXXXX";  // short: a unix socket path has 107 bytes
    directory_ = mkdtemp(directory);
    live_.Start();
    const auto bound = server_.Start({"127.0.0.1:0", directory_ + "/control.sock"});
    EXPECT_TRUE(bound.ok()) << bound.status();
    bound_ = *bound;
    Connect(bound_.address);
  }
  ~RpcFixture() override {
    server_.Stop();
    live_.Stop();
    std::filesystem::remove_all(directory_);
  }

  RpcParts Parts() {
    RpcParts parts;
    parts.store = &node_.store;
    parts.reader = &node_.reader;
    parts.dictionary = &node_.dictionary;
    parts.totals = &node_.totals;
    parts.jobs = &node_.jobs;
    parts.live = &live_;
    parts.clock = &node_.clock;
    parts.node = [] {
      return NodeFacts{"node-a", "boot",           "0.1.0",           "6.1",     2,
                       "/data",  "127.0.0.1:7462", "/run/agent.sock", "private", {"place", "intern"}};
    };
    parts.collectors = [] {
      return std::vector<CollectorState>{{"sched", "none", "unavailable", "no BTF", "use a kernel with BTF", {{"drops", "3"}}}};
    };
    parts.identify = [this](const std::string& peer) -> absl::StatusOr<uint32_t> {
      if (!caller_uid_) return absl::PermissionDeniedError("cannot tell who " + peer + " is; use the control socket");
      return *caller_uid_;
    };
    parts.flush_sessions = [this](RunId run) {
      order_.push_back("flush " + std::to_string(run.value));
      return absl::OkStatus();
    };
    parts.before_delete = [this](RunId run) { order_.push_back("before delete " + std::to_string(run.value)); };
    return parts;
  }
  void Connect(const std::string& target) {
    const auto channel = grpc::CreateChannel(target, grpc::InsecureChannelCredentials());
    query_ = v1::QueryService::NewStub(channel);
    control_ = v1::ControlService::NewStub(channel);
  }
  /// Calls `method` and returns the status; the answer lands in `*response`.
  template <typename Stub, typename Request, typename Response>
  grpc::Status Call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                    const std::type_identity_t<Request>& request, Response* response) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return (stub.*method)(&context, request, response);
  }

  FakeNode node_;
  SystemClock system_clock_;
  RankSampler live_;
  std::optional<uint32_t> caller_uid_ = 0;
  std::vector<std::string> order_;
  RpcServer server_;
  RpcServer::Bound bound_;
  std::string directory_;
  std::unique_ptr<v1::QueryService::Stub> query_;
  std::unique_ptr<v1::ControlService::Stub> control_;
};

using Q = v1::QueryService::Stub;
using C = v1::ControlService::Stub;

}  // namespace stepscope
