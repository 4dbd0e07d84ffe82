// SPDX-License-Identifier: Apache-2.0
// A real gRPC server of AgentService fed with accepted sockets, as the daemon does it: hello, reply with stored positions, then
// the socket goes to a server without a port. What it stores survives its Stop, as a store on disk would.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent_socket.h"
#include "stepscope/v1/agent.grpc.pb.h"

namespace stepscope::agent {

// By {session, ring, generation}: the bytes below the stored position.
class PushStore {
 public:
  struct Key {
    std::string session;
    uint32_t ring;
    uint32_t generation;
    auto operator<=>(const Key&) const = default;
  };
  // False for a hole. Bytes below the stored position are cut.
  bool Append(const Key& key, uint64_t from, const std::string& data, uint64_t* position);
  std::vector<stepscope_hello_position> Positions(const std::string& session) const;
  std::map<Key, std::string> All() const;
  uint64_t cut_bytes() const { return cut_bytes_; }

 private:
  mutable std::mutex mutex_;
  std::map<Key, std::string> bytes_;
  std::atomic<uint64_t> cut_bytes_{0};
};

class PushServer {
 public:
  struct Behaviour {
    bool acknowledge = true;
    bool stop_at_once = false;  // AgentConfig.stop with the first reply
    uint32_t hello_status = 0;
    uint32_t push_interval_ms = 0;  // AgentConfig with each reply; 0 = none
  };
  PushServer(AgentSocket* socket, PushStore* store, Behaviour behaviour);
  PushServer(AgentSocket* socket, PushStore* store) : PushServer(socket, store, Behaviour{}) {}
  ~PushServer();  // cuts every connection, like a killed daemon

  uint64_t greetings() const { return greetings_; }
  uint64_t requests() const { return requests_; }

 private:
  class Service;
  void AcceptLoop();
  void Welcome(Greeting greeting);

  AgentSocket* socket_;
  PushStore* store_;
  const Behaviour behaviour_;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> greetings_{0};
  std::atomic<uint64_t> requests_{0};
  std::mutex mutex_;
  std::map<std::string, std::string> session_of_nonce_;
  std::vector<Greeting> kept_;
  std::thread accept_thread_;
};

}  // namespace stepscope::agent
