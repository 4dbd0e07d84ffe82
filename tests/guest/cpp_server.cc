// SPDX-License-Identifier: Apache-2.0
// AgentService on gRPC C++: `guest_cpp_server FOLDER NONCE MAX_AGE_MS`. Prints its port. What it does: python_server.py.
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <string>

#include "stepscope/v1/agent.grpc.pb.h"

namespace stepscope {
namespace {

std::string FromHex(const std::string& text) {
  std::string bytes;
  for (size_t i = 0; i + 1 < text.size(); i += 2) bytes.push_back(static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

class AgentServer final : public v1::AgentService::Service {
 public:
  AgentServer(std::filesystem::path folder, std::string nonce) : folder_(std::move(folder)), nonce_(std::move(nonce)) {}

  grpc::Status Push(grpc::ServerContext* context, grpc::ServerReaderWriter<v1::PushReply, v1::PushRequest>* stream) override {
    const auto given = context->client_metadata().find("stepscope-nonce-bin");
    if (given == context->client_metadata().end() || std::string(given->second.data(), given->second.size()) != nonce_)
      return {grpc::StatusCode::UNAUTHENTICATED, "this nonce is unknown here"};
    v1::PushRequest request;
    while (stream->Read(&request)) {
      const std::optional<uint64_t> position = Append(request);
      if (!position.has_value()) return {grpc::StatusCode::FAILED_PRECONDITION, "a hole"};
      v1::PushReply reply;
      v1::RingPosition* stored = reply.add_stored();
      stored->set_ring(request.ring());
      stored->set_generation(request.generation());
      stored->set_position(*position);
      stream->Write(reply);
    }
    return grpc::Status::OK;
  }

 private:
  std::optional<uint64_t> Append(const v1::PushRequest& request) {
    const std::lock_guard lock(mutex_);
    const auto path = folder_ / (std::to_string(request.ring()) + "-" + std::to_string(request.generation()));
    const uint64_t stored = std::filesystem::exists(path) ? std::filesystem::file_size(path) : 0;
    if (request.from() > stored) return std::nullopt;
    const uint64_t known = std::min<uint64_t>(stored - request.from(), request.data().size());
    std::ofstream(path, std::ios::binary | std::ios::app) << request.data().substr(known);
    return stored + request.data().size() - known;
  }

  const std::filesystem::path folder_;
  const std::string nonce_;
  std::mutex mutex_;
};

}  // namespace
}  // namespace stepscope

int main(int count, char** arguments) {
  if (count != 4) return 2;
  stepscope::AgentServer service(arguments[1], stepscope::FromHex(arguments[2]));
  grpc::ServerBuilder builder;
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  if (const int age_ms = std::atoi(arguments[3]); age_ms != 0) {
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_MS, age_ms);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONNECTION_AGE_GRACE_MS, 1000);
  }
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) return 1;
  std::printf("%d\n", port);
  std::fflush(stdout);
  server->Wait();
}
