// SPDX-License-Identifier: Apache-2.0
// AgentSocket: the unix socket agents connect to, up to a complete hello. Anybody may connect (mode 0666: credentials decide),
// so everything a peer can do here is bounded: bytes, descriptors, time, connections per user.
//
// Thread rule: the ingest thread only, and Listen before it starts.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "daemon/ingest/foreign_files.h"
#include "daemon/ingest/hello_message.h"

struct msghdr;

namespace stepscope {

/// A peer that said hello.
struct HelloPeer {
  unique_fd connection;
  unique_fd ring_file;
  Hello hello;
};

class AgentSocket {
 public:
  struct Limits {
    int64_t hello_timeout_ns = 5'000'000'000;
    size_t waiting_per_user = 64;  ///< connections without a complete hello
    /// Of one user, after a burst. A process that is gone when its hello is refused loses what it recorded, so these lie above
    /// what a machine forks.
    double hellos_per_second = 1000;
    double hello_burst = 16384;
  };
  struct Events {
    std::function<void(HelloPeer)> hello;
    /// Refused: the reply was sent, the connection is closed.
    std::function<void(uint32_t uid, const std::string& reason)> refused;
  };

  /// Creates the folder (0755), removes a socket nobody answers on, binds and listens. FAILED_PRECONDITION when another daemon
  /// answers or something else lies at `path`; INVALID_ARGUMENT for a path too long for a socket. `kept` is a listening socket
  /// that outlived an earlier daemon: hellos wait in it. It is used if it is the one at `path`.
  static absl::StatusOr<std::unique_ptr<AgentSocket>> Listen(const std::string& path, const Limits& limits, Events events,
                                                             unique_fd kept = {});
  ~AgentSocket();

  int listener() const { return listener_.get(); }
  /// The listening socket outlives the daemon: its path stays.
  void LeavePath() { leaves_path_ = true; }

  /// Adds what must be watched to `epoll_fd`; the data of each event is the descriptor.
  void Watch(int epoll_fd);
  /// Leaves those who connect in the kernel's queue, their hellos with them, until it is told to accept again.
  void Pause(bool paused);
  /// True when `fd` was one of its own and has been served.
  bool OnReadable(int fd, int64_t now_ns);
  /// Whether a peer is connected that has not said hello.
  bool HasWaiting() const { return !waiting_.empty(); }
  /// Closes peers that took too long.
  void Expire(int64_t now_ns);
  /// Accepts and reads all that is there now.
  void ServeAll(int64_t now_ns);

  /// Sends a reply that says no.
  static void Refuse(int connection, stepscope_hello_status status);

 private:
  struct Waiting {
    unique_fd connection;
    unique_fd ring_file;
    bool foreign_file = false;  ///< it came with a file that is none of memory
    std::string bytes;
    uint32_t uid = 0;
    int64_t since_ns = 0;
  };
  struct User {
    double tokens = 0;
    int64_t filled_ns = 0;
    size_t waiting = 0;
  };

  AgentSocket(std::string path, Limits limits, Events events, unique_fd listener);
  void Accept(int64_t now_ns, size_t most);
  bool AdmitUser(uint32_t uid, int64_t now_ns);
  void ReadHello(int fd);
  /// Next bytes of a hello; false = nothing there now. A reason in `refusal` ends the peer.
  bool Receive(Waiting& peer, std::string* refusal);
  bool TakeDescriptors(::msghdr& header, Waiting& peer);
  void Drop(int fd, stepscope_hello_status status, const std::string& reason);
  Waiting Release(int fd);

  std::string path_;
  Limits limits_;
  Events events_;
  unique_fd listener_;
  bool leaves_path_ = false;
  int epoll_fd_ = -1;
  bool paused_ = false;
  std::map<int, Waiting> waiting_;
  std::map<uint32_t, User> users_;
  ForeignFiles foreign_;
};

}  // namespace stepscope
