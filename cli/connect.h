// SPDX-License-Identifier: Apache-2.0
// Connection: the daemon a command talks to. --server ADDR, or a private data directory (its live daemon, else one started for
// this command), or the system daemon if it answers, else the private store of the user.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "cli/command.h"
#include "cli/private_daemon.h"
#include "stepscope/v1/control.grpc.pb.h"
#include "stepscope/v1/query.grpc.pb.h"

namespace stepscope::cli {

struct ConnectOptions {
  std::vector<std::string> overrides;  ///< configuration of a daemon that has to be started
};

class Connection {
 public:
  static absl::StatusOr<std::unique_ptr<Connection>> Open(const Globals& globals, const ConnectOptions& options = {});

  v1::QueryService::Stub& query() { return *query_; }
  v1::ControlService::Stub& control() { return *control_; }
  const std::string& agent_socket() const { return agent_socket_; }
  const std::string& address() const { return address_; }
  bool started_here() const { return own_.has_value(); }
  /// Options to repeat in suggested commands: "--data-dir D " or "".
  const std::string& hint() const { return hint_; }

 private:
  absl::Status Dial(const std::string& address, int timeout_ms);

  std::optional<PrivateDaemon> own_;
  std::string address_;
  std::string agent_socket_;
  std::string hint_;
  std::unique_ptr<v1::QueryService::Stub> query_;
  std::unique_ptr<v1::ControlService::Stub> control_;
};

/// Calls one unary method with a deadline. The error keeps the server's text.
template <typename Response, typename Stub, typename Request>
absl::StatusOr<Response> Call(Stub& stub, grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                              const Request& request, int timeout_ms = 30'000) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(timeout_ms));
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (status.ok()) return response;
  return absl::Status(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
}

/// Prints "stepscope: <message>" on stderr and returns kFailed.
int Fail(const absl::Status& status);
/// Prints a message as JSON (field names as in the proto).
int PrintJson(const google::protobuf::Message& message);

}  // namespace stepscope::cli
