// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/push_service.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>

#include <chrono>
#include <optional>
#include <utility>

#include "stepscope/v1/agent.grpc.pb.h"

namespace stepscope {
namespace {

// What fills slowly is read from the ring (Session::Poll), at a fraction of what a message costs; an agent pushes when much
// waits.
constexpr uint32_t kPushIntervalMs = 10000;
constexpr int kMaxMessageBytes = (1 << 20) + (64 << 10);

grpc::Status ToGrpc(const absl::Status& status) {
  return {static_cast<grpc::StatusCode>(status.code()), std::string(status.message())};
}

/// One Push call. gRPC owns it until OnDone; others may hold it longer, every call on it is then without effect.
///
/// `in_call_` counts threads inside a gRPC call on the stream: Finish waits until there is none, so none comes after it.
class PushStream final : public grpc::ServerBidiReactor<v1::PushRequest, v1::PushReply>,
                         public AckSink,
                         public std::enable_shared_from_this<PushStream> {
 public:
  PushStream(const PushService::Parts* parts, std::shared_ptr<Session> session) : parts_(parts), session_(std::move(session)) {}

  void Open() {
    self_ = shared_from_this();
    if (session_ == nullptr) return End(absl::NotFoundError("no session has this nonce; connect and say hello again"));
    session_->Attach(self_);
    ReadNext();
  }

  void Ack(const RingPositions& stored) override {
    {
      const std::lock_guard lock(mu_);
      for (const auto& [ring, at] : stored) to_ack_[ring] = at;
    }
    WriteNext();
  }
  void Settled() override {
    {
      const std::lock_guard lock(mu_);
      --unsettled_;
    }
    EndIfSettled();
  }
  void End(const absl::Status& status) override {
    {
      const std::lock_guard lock(mu_);
      if (!ending_) ending_ = ToGrpc(status);
    }
    FinishIfIdle();
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      {
        const std::lock_guard lock(mu_);
        reads_done_ = true;
      }
      return EndIfSettled();
    }
    {
      const std::lock_guard lock(mu_);
      ++unsettled_;
    }
    parts_->post([self = shared_from_this()] { self->Take(); });
  }
  void OnWriteDone(bool ok) override {
    {
      const std::lock_guard lock(mu_);
      writing_ = false;
    }
    if (!ok) return End(absl::CancelledError("the agent is gone"));
    WriteNext();
    EndIfSettled();
    FinishIfIdle();
  }
  void OnCancel() override { End(absl::CancelledError("the agent is gone")); }
  void OnDone() override {
    if (session_ != nullptr) session_->Detach(this);
    const std::shared_ptr<PushStream> last = std::move(self_);
  }

 private:
  /// On the worker: the request just read.
  void Take() {
    RingPiece piece{request_.ring(), request_.generation(), request_.from(), request_.to(), std::move(*request_.mutable_data())};
    const uint32_t ring = piece.ring;
    const auto taken = session_->Push(std::move(piece), shared_from_this());
    if (!taken.ok()) return End(taken.status());
    if (*taken == Session::Taken::kKnown) {
      const RingPositions stored = session_->Stored();
      if (const auto at = stored.find(ring); at != stored.end()) Ack({*at});
      Settled();
    }
    ReadNext();
  }

  void ReadNext() {
    if (!EnterCall([&] { return true; })) return;
    StartRead(&request_);
    LeaveCall();
  }
  void WriteNext() {
    const bool enter = EnterCall([&] {
      if (writing_ || to_ack_.empty()) return false;
      reply_.Clear();
      for (const auto& [ring, at] : std::exchange(to_ack_, {})) {
        v1::RingPosition* position = reply_.add_stored();
        position->set_ring(ring);
        position->set_generation(at.generation);
        position->set_position(at.position);
      }
      if (!std::exchange(configured_, true)) reply_.mutable_config()->set_push_interval_ms(kPushIntervalMs);
      return writing_ = true;
    });
    if (!enter) return;
    StartWrite(&reply_);
    LeaveCall();
  }
  bool EnterCall(const auto& wanted) {
    const std::lock_guard lock(mu_);
    if (ending_ || !wanted()) return false;
    ++in_call_;
    return true;
  }
  void LeaveCall() {
    {
      const std::lock_guard lock(mu_);
      --in_call_;
    }
    FinishIfIdle();
  }
  void EndIfSettled() {
    {
      const std::lock_guard lock(mu_);
      if (!reads_done_ || unsettled_ > 0 || writing_ || !to_ack_.empty()) return;
    }
    End(absl::OkStatus());
  }
  void FinishIfIdle() {
    {
      const std::lock_guard lock(mu_);
      if (!ending_ || writing_ || in_call_ > 0 || std::exchange(finished_, true)) return;
    }
    Finish(*ending_);
  }

  const PushService::Parts* parts_;
  std::shared_ptr<Session> session_;
  std::shared_ptr<PushStream> self_;
  v1::PushRequest request_;
  v1::PushReply reply_;
  std::mutex mu_;  ///< guards what follows
  RingPositions to_ack_;
  bool configured_ = false;
  int unsettled_ = 0;
  int in_call_ = 0;
  bool writing_ = false;
  bool reads_done_ = false;
  bool finished_ = false;
  std::optional<grpc::Status> ending_;
};

class GrpcPushService final : public PushService, public v1::AgentService::CallbackService {
 public:
  explicit GrpcPushService(Parts parts) : parts_(std::move(parts)) {}
  ~GrpcPushService() override { Stop(); }

  bool Build() {
    grpc::ServerBuilder builder;
    builder.RegisterService(this);
    builder.SetMaxReceiveMessageSize(kMaxMessageBytes);
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, 4);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);  // a ping for each push, to learn the bandwidth of a unix socket
    server_ = builder.BuildAndStart();
    return server_ != nullptr;
  }
  void Serve(unique_fd connection) override {
    fcntl(connection.get(), F_SETFL, fcntl(connection.get(), F_GETFL) | O_NONBLOCK);
    grpc::AddInsecureChannelFromFd(server_.get(), connection.release());
  }
  void Stop() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now() + std::chrono::seconds(1));
  }

  grpc::ServerBidiReactor<v1::PushRequest, v1::PushReply>* Push(grpc::CallbackServerContext* context) override {
    const auto nonce = context->client_metadata().find("stepscope-nonce-bin");
    const bool given = nonce != context->client_metadata().end();
    const auto stream = std::make_shared<PushStream>(
        &parts_, given ? parts_.session_of(std::string(nonce->second.data(), nonce->second.size())) : nullptr);
    stream->Open();
    return stream.get();
  }

 private:
  Parts parts_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<PushService>> PushService::Start(Parts parts) {
  auto service = std::make_unique<GrpcPushService>(std::move(parts));
  if (!service->Build()) return absl::InternalError("the agent gRPC server did not start");
  return service;
}

}  // namespace stepscope
