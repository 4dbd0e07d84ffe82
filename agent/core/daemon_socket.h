// SPDX-License-Identifier: Apache-2.0
// The connection to the daemon up to HTTP/2: connect, hello with the ring file, reply (contract/hello.h). Nothing here waits.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "agent/core/held_fd.h"
#include "contract/hello.h"

namespace stepscope::agent {

inline constexpr char kDefaultSocketPath[] = "/run/stepscope/agent.sock";  // of the system daemon

// What identifies this process to the daemon; the same at every connection of a session.
struct HelloContent {
  const uint8_t* session;
  uint32_t clock_kind;
  uint64_t ticks;
  uint64_t file_bytes;
  bool has_parent;
  const uint8_t* parent_session;
  const char* const* environment;
};

class DaemonSocket {
 public:
  // 0, or -errno: -ENOENT and -ECONNREFUSED mean that no daemon listens there.
  long Connect(const char* path);
  // One message with the descriptor in it, or -errno.
  long SendHello(const HelloContent& content, int ring_file_fd);

  enum class Reply { kWaiting, kComplete, kClosed, kMalformed };
  // Takes what has arrived of the reply and not a byte of what follows it.
  Reply ReceiveReply();
  const stepscope_hello_reply& reply() const { return reply_; }
  const stepscope_hello_position* positions() const { return positions_; }
  uint32_t position_count() const { return reply_.position_count; }

  // As the system calls: bytes, or -errno; -EBADF when the host closed our descriptor.
  long Send(const void* bytes, size_t count);
  long Receive(void* bytes, size_t count);

  HeldFd& fd() { return fd_; }
  void Close() { fd_.Close(); }

 private:
  static constexpr uint32_t kMaxPositions = 1024;

  HeldFd fd_;
  size_t reply_bytes_ = 0;
  stepscope_hello_reply reply_ = {};
  stepscope_hello_position positions_[kMaxPositions] = {};
};

}  // namespace stepscope::agent
