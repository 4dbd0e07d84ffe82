// SPDX-License-Identifier: Apache-2.0
#include "agent/core/daemon_socket.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "agent/core/clock_reading.h"
#include "agent/core/facts.h"
#include "agent/core/kernel_call.h"

namespace stepscope::agent {

long DaemonSocket::Connect(const char* path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t path_bytes = strlen(path);
  if (path_bytes >= sizeof(address.sun_path)) return -ENAMETOOLONG;
  memcpy(address.sun_path, path, path_bytes);
  size_t address_bytes = offsetof(sockaddr_un, sun_path) + path_bytes + 1;
  if (path[0] == '@') {  // abstract name
    address.sun_path[0] = '\0';
    --address_bytes;
  }
  long fd = KernelCall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (IsError(fd)) return fd;
  fd_.Hold(static_cast<int>(fd));
  const int held = fd_.Use();
  if (held < 0) return -EBADF;
  const long result = KernelCall(SYS_connect, held, PointerArgument(&address), static_cast<long>(address_bytes));
  if (IsError(result)) fd_.Close();
  reply_bytes_ = 0;
  return IsError(result) ? result : 0;
}

long DaemonSocket::SendHello(const HelloContent& content, int ring_file_fd) {
  char message[STEPSCOPE_HELLO_MAX_BYTES];
  stepscope_hello hello{};
  hello.magic = STEPSCOPE_HELLO_MAGIC;
  hello.version = STEPSCOPE_HELLO_VERSION;
  hello.size = sizeof(hello);
  memcpy(hello.session, content.session, sizeof(hello.session));
  hello.pid = ProcessId();
  hello.tid = ThreadId();
  hello.uid = static_cast<uint32_t>(KernelCall(SYS_getuid));
  hello.clock_kind = content.clock_kind;
  hello.ticks = content.ticks;
  hello.monotonic_ns = ClockNs(CLOCK_MONOTONIC);
  hello.realtime_ns = ClockNs(CLOCK_REALTIME);
  hello.file_bytes = content.file_bytes;
  hello.parent_session_known = content.has_parent ? 1 : 0;
  if (content.has_parent) memcpy(hello.parent_session, content.parent_session, sizeof(hello.parent_session));
  hello.facts_bytes =
      static_cast<uint32_t>(CollectFacts(content.environment, message + sizeof(hello), sizeof(message) - sizeof(hello)));
  memcpy(message, &hello, sizeof(hello));

  iovec part{message, sizeof(hello) + hello.facts_bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  cmsghdr* rights = CMSG_FIRSTHDR(&header);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(rights), &ring_file_fd, sizeof(int));
  int fd = fd_.Use();
  if (fd < 0) return -EBADF;
  long sent = KernelCall(SYS_sendmsg, fd, PointerArgument(&header), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (IsError(sent)) return sent;
  return sent == static_cast<long>(part.iov_len) ? 0 : -EMSGSIZE;
}

DaemonSocket::Reply DaemonSocket::ReceiveReply() {
  for (;;) {
    size_t wanted = sizeof(reply_);
    if (reply_bytes_ >= sizeof(reply_)) {
      if (reply_.magic != STEPSCOPE_HELLO_REPLY_MAGIC || reply_.position_count > kMaxPositions) return Reply::kMalformed;
      wanted += reply_.position_count * sizeof(stepscope_hello_position);
      if (reply_bytes_ == wanted) return Reply::kComplete;
    }
    uint8_t* to = reply_bytes_ < sizeof(reply_) ? reinterpret_cast<uint8_t*>(&reply_) + reply_bytes_
                                                : reinterpret_cast<uint8_t*>(positions_) + reply_bytes_ - sizeof(reply_);
    long got = Receive(to, wanted - reply_bytes_);
    if (got == -EAGAIN || got == -EINTR) return Reply::kWaiting;
    if (got <= 0) return Reply::kClosed;
    reply_bytes_ += static_cast<size_t>(got);
  }
}

long DaemonSocket::Send(const void* bytes, size_t count) {
  int fd = fd_.Use();
  if (fd < 0) return -EBADF;
  return KernelCall(SYS_sendto, fd, PointerArgument(bytes), static_cast<long>(count), MSG_NOSIGNAL | MSG_DONTWAIT);
}

long DaemonSocket::Receive(void* bytes, size_t count) {
  int fd = fd_.Use();
  if (fd < 0) return -EBADF;
  return KernelCall(SYS_recvfrom, fd, PointerArgument(bytes), static_cast<long>(count), MSG_DONTWAIT);
}

}  // namespace stepscope::agent
