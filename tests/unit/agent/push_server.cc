// SPDX-License-Identifier: Apache-2.0
#include "push_server.h"

#include <fcntl.h>
#include <grpcpp/server_posix.h>
#include <sys/socket.h>

#include <cstring>

namespace stepscope::agent {

bool PushStore::Append(const Key& key, uint64_t from, const std::string& data, uint64_t* position) {
  std::lock_guard lock(mutex_);
  std::string& stored = bytes_[key];
  *position = stored.size();
  if (from > stored.size()) return false;
  uint64_t known = std::min<uint64_t>(stored.size() - from, data.size());
  cut_bytes_ += known;
  stored.append(data, known, std::string::npos);
  *position = stored.size();
  return true;
}

std::vector<stepscope_hello_position> PushStore::Positions(const std::string& session) const {
  std::lock_guard lock(mutex_);
  std::vector<stepscope_hello_position> positions;
  for (const auto& [key, bytes] : bytes_) {
    if (key.session == session) positions.push_back({key.ring, key.generation, bytes.size()});
  }
  return positions;
}

std::map<PushStore::Key, std::string> PushStore::All() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

class PushServer::Service : public v1::AgentService::CallbackService {
 public:
  explicit Service(PushServer* owner) : owner_(owner) {}

  grpc::ServerBidiReactor<v1::PushRequest, v1::PushReply>* Push(grpc::CallbackServerContext* context) override {
    std::string nonce;
    auto found = context->client_metadata().find("stepscope-nonce-bin");
    if (found != context->client_metadata().end()) nonce.assign(found->second.data(), found->second.size());
    std::string session;
    {
      std::lock_guard lock(owner_->mutex_);
      auto known = owner_->session_of_nonce_.find(nonce);
      if (known != owner_->session_of_nonce_.end()) session = known->second;
    }
    return new Stream(owner_, session);
  }

 private:
  class Stream : public grpc::ServerBidiReactor<v1::PushRequest, v1::PushReply> {
   public:
    Stream(PushServer* owner, std::string session) : owner_(owner), session_(std::move(session)) {
      if (session_.empty()) {
        Finish(grpc::Status(grpc::StatusCode::UNAUTHENTICATED, "unknown nonce"));
      } else {
        StartRead(&request_);
      }
    }

    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::OK);
      ++owner_->requests_;
      uint64_t position = 0;
      if (request_.to() - request_.from() != request_.data().size() ||
          !owner_->store_->Append({session_, request_.ring(), request_.generation()}, request_.from(), request_.data(),
                                  &position)) {
        return Finish(grpc::Status(grpc::StatusCode::FAILED_PRECONDITION, "hole"));
      }
      if (!owner_->behaviour_.acknowledge) return StartRead(&request_);
      reply_.Clear();
      auto* stored = reply_.add_stored();
      stored->set_ring(request_.ring());
      stored->set_generation(request_.generation());
      stored->set_position(position);
      if (owner_->behaviour_.stop_at_once) reply_.mutable_config()->set_stop(true);
      const uint32_t interval_ms = owner_->behaviour_.push_interval_ms;
      if (interval_ms != 0) reply_.mutable_config()->set_push_interval_ms(interval_ms);
      StartWrite(&reply_);
    }
    void OnWriteDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::OK);
      StartRead(&request_);
    }
    void OnDone() override { delete this; }

   private:
    PushServer* owner_;
    std::string session_;
    v1::PushRequest request_;
    v1::PushReply reply_;
  };

  PushServer* owner_;
};

PushServer::PushServer(AgentSocket* socket, PushStore* store, Behaviour behaviour)
    : socket_(socket), store_(store), behaviour_(behaviour), service_(std::make_unique<Service>(this)) {
  grpc::ServerBuilder builder;
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  accept_thread_ = std::thread([this] { AcceptLoop(); });
}

PushServer::~PushServer() {
  stopping_ = true;
  accept_thread_.join();
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

void PushServer::AcceptLoop() {
  while (!stopping_) {
    std::optional<Greeting> greeting = socket_->Accept(std::chrono::milliseconds(20));
    if (greeting.has_value()) Welcome(std::move(*greeting));
  }
}

void PushServer::Welcome(Greeting greeting) {
  const std::string session(reinterpret_cast<const char*>(greeting.hello.session), sizeof(greeting.hello.session));
  const uint64_t number = ++greetings_;
  std::string nonce(STEPSCOPE_NONCE_BYTES, '\0');
  std::memcpy(nonce.data(), &number, sizeof(number));
  nonce.back() = '\xFF';
  {
    std::lock_guard lock(mutex_);
    session_of_nonce_[nonce] = session;
  }
  std::vector<stepscope_hello_position> positions = store_->Positions(session);
  stepscope_hello_reply reply{STEPSCOPE_HELLO_REPLY_MAGIC,
                              STEPSCOPE_HELLO_VERSION,
                              behaviour_.hello_status,
                              {},
                              static_cast<uint32_t>(positions.size()),
                              0};
  std::memcpy(reply.nonce, nonce.data(), nonce.size());
  std::string bytes(reinterpret_cast<const char*>(&reply), sizeof(reply));
  bytes.append(reinterpret_cast<const char*>(positions.data()), positions.size() * sizeof(positions[0]));
  send(greeting.connection.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
  if (behaviour_.hello_status != 0) return;
  fcntl(greeting.connection.get(), F_SETFL, fcntl(greeting.connection.get(), F_GETFL) | O_NONBLOCK);
  grpc::AddInsecureChannelFromFd(server_.get(), greeting.connection.release());
  kept_.push_back(std::move(greeting));
}

}  // namespace stepscope::agent
