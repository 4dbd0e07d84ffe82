// SPDX-License-Identifier: Apache-2.0
#include "cli/connect.h"

#include <fmt/format.h>
#include <google/protobuf/util/json_util.h>
#include <grpcpp/create_channel.h>

#include <cstdio>
#include <cstdlib>

#include "base/status.h"

namespace stepscope::cli {
namespace {

constexpr char kSystemAddress[] = "127.0.0.1:7461";
constexpr int kSystemTimeoutMs = 300;
constexpr int kTimeoutMs = 5000;

}  // namespace

absl::Status Connection::Dial(const std::string& address, int timeout_ms) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(256 << 20);
  const auto channel = grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
  address_ = address;
  query_ = v1::QueryService::NewStub(channel);
  control_ = v1::ControlService::NewStub(channel);
  const auto node = Call(*query_, &v1::QueryService::Stub::GetNode, v1::GetNodeRequest(), timeout_ms);
  if (!node.ok()) {
    return absl::UnavailableError(
        fmt::format("no stepscoped answers at {} ({}); start one with `stepscope daemon`, or name a "
                    "private store with --data-dir",
                    address, std::string(node.status().message())));
  }
  agent_socket_ = node->agent_socket();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Connection>> Connection::Open(const Globals& globals, const ConnectOptions& options) {
  auto connection = std::make_unique<Connection>();
  if (!globals.server.empty()) {
    connection->hint_ = fmt::format("--server {} ", globals.server);
    STEPSCOPE_RETURN_IF_ERROR(connection->Dial(globals.server, kTimeoutMs));
    return connection;
  }
  std::string data_dir = globals.data_dir;
  if (data_dir.empty()) {
    if (connection->Dial(kSystemAddress, kSystemTimeoutMs).ok()) return connection;
    data_dir = DefaultDataDir();
  } else if (getenv("STEPSCOPE_DATA_DIR") == nullptr) {
    connection->hint_ = fmt::format("--data-dir {} ", data_dir);
  }
  auto address = FindPrivateDaemon(data_dir);
  if (!address.ok()) {
    STEPSCOPE_ASSIGN_OR_RETURN(PrivateDaemon started, PrivateDaemon::Start(data_dir, options.overrides));
    address = connection->own_.emplace(std::move(started)).address();
  }
  STEPSCOPE_RETURN_IF_ERROR(connection->Dial(address->grpc, kTimeoutMs));
  return connection;
}

int Fail(const absl::Status& status) {
  fprintf(stderr, "stepscope: %s\n", std::string(status.message()).c_str());
  return kFailed;
}

int PrintJson(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status = google::protobuf::util::MessageToJsonString(message, &text, options);
  if (!status.ok()) return Fail(absl::InternalError(status.ToString()));
  fputs(text.c_str(), stdout);
  return kOk;
}

}  // namespace stepscope::cli
