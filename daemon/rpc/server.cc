// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/server.h"

#include <fmt/format.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

#include "base/status.h"
#include "daemon/live/listen_address.h"
#include "daemon/rpc/access.h"
#include "daemon/rpc/control_service.h"
#include "daemon/rpc/health_service.h"
#include "daemon/rpc/query_service.h"

namespace stepscope {
namespace {

constexpr int kMaxRequestBytes = 1 << 20;
constexpr int kMaxStreamsPerConnection = 100;
constexpr std::chrono::milliseconds kStopTime{500};

/// A new directory beside `path`, only ours, to bind the socket in: the file exists under its own name only once it is 0600.
absl::StatusOr<std::string> MakeBindDirectory(const std::string& path) {
  std::string directory = (std::filesystem::path(path).parent_path() / ".ctl-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) {
    return ErrnoStatus(errno, fmt::format("mkdtemp({}) for the control socket", directory),
                       "make its folder writable for the daemon, or set server.control_socket elsewhere");
  }
  return directory;
}

absl::Status Publish(const std::string& bound, const std::string& path) {
  if (chmod(bound.c_str(), 0600) != 0) return ErrnoStatus(errno, fmt::format("chmod({}, 0600)", bound));
  if (rename(bound.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, fmt::format("rename({}, {})", bound, path));
  return absl::OkStatus();
}

}  // namespace

struct RpcServer::Impl {
  explicit Impl(RpcParts given)
      : parts(std::move(given)),
        access(parts.jobs, geteuid(), parts.proc, parts.identify),
        queries({"query", 2, 10, 64, parts.on_query}),
        controls({"control", 2, 0, 64}),
        query_service(parts, &access, &queries),
        control_service(parts, &access, &controls) {}

  std::unique_ptr<grpc::Server> Build(const std::string& address, const std::string& unix_path, int* port);
  absl::StatusOr<Bound> Listen(ListenAddress address, const std::string& unix_path);

  const RpcParts parts;
  Access access;
  QueryPool queries;
  QueryPool controls;
  QueryService query_service;
  ControlService control_service;
  HealthService health{{"stepscope.v1.QueryService", "stepscope.v1.ControlService"}};
  std::unique_ptr<grpc::Server> server;
  std::string control_socket;
};

RpcServer::RpcServer(RpcParts parts) : impl_(std::make_unique<Impl>(std::move(parts))) {}
RpcServer::~RpcServer() { Stop(); }

std::unique_ptr<grpc::Server> RpcServer::Impl::Build(const std::string& address, const std::string& unix_path, int* port) {
  static const bool kReflection = (grpc::reflection::InitProtoReflectionServerBuilderPlugin(), true);
  (void)kReflection;
  grpc::ServerBuilder builder;
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsPerConnection);
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two daemons on one port would each get half of the calls
  builder.AddListeningPort(address, grpc::InsecureServerCredentials(), port);
  if (!unix_path.empty()) builder.AddListeningPort("unix:" + unix_path, grpc::InsecureServerCredentials());
  builder.RegisterService(&query_service);
  builder.RegisterService(&control_service);
  builder.RegisterService(&health);
  return builder.BuildAndStart();
}

absl::StatusOr<RpcServer::Bound> RpcServer::Impl::Listen(ListenAddress address, const std::string& unix_path) {
  const uint16_t wanted = address.port;
  for (int attempt = 0; attempt < kPortsTried && wanted + attempt <= UINT16_MAX; ++attempt) {
    address.port = static_cast<uint16_t>(wanted == 0 ? 0 : wanted + attempt);
    if (!IsFree(address)) continue;
    int port = 0;
    server = Build(address.Text(), unix_path, &port);
    if (server == nullptr || port == 0) continue;
    address.port = static_cast<uint16_t>(port);
    return Bound{address.Text(), address.port, ""};
  }
  return absl::UnavailableError(
      fmt::format("gRPC could listen on none of {}:{} … {}; see who holds them with `ss -ltnp`, or set "
                  "server.grpc_address",
                  address.host, wanted, wanted + kPortsTried - 1));
}

absl::StatusOr<RpcServer::Bound> RpcServer::Start(const Options& options) {
  STEPSCOPE_ASSIGN_OR_RETURN(const ListenAddress address, ParseLoopback(options.address, "gRPC address"));
  std::string directory;
  if (!options.control_socket.empty()) {
    STEPSCOPE_ASSIGN_OR_RETURN(directory, MakeBindDirectory(options.control_socket));
  }
  const std::string bind_path = directory.empty() ? "" : directory + "/s";
  auto bound = impl_->Listen(address, bind_path);
  absl::Status status = bound.status();
  if (status.ok() && !directory.empty()) status = Publish(bind_path, options.control_socket);
  if (!directory.empty()) {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
  }
  if (!status.ok()) {
    Stop();
    return status;
  }
  impl_->control_socket = options.control_socket;
  bound->control_socket = options.control_socket;
  impl_->access.SetServerPort(bound->port);
  impl_->query_service.handlers().SetGrpcAddress(bound->address);
  return bound;
}

void RpcServer::Stop() {
  impl_->health.Leave();
  if (impl_->server != nullptr) impl_->server->Shutdown(std::chrono::system_clock::now() + kStopTime);
  impl_->queries.Stop();
  impl_->controls.Stop();
  impl_->server.reset();
  if (!impl_->control_socket.empty()) unlink(std::exchange(impl_->control_socket, {}).c_str());
}

}  // namespace stepscope
