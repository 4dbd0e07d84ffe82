// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/agent_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace stepscope {
namespace {

constexpr size_t kAcceptAtOnce = 64;   // then whoever drives it may pause
constexpr size_t kMaxDescriptors = 8;  // a peer may send more than the one we take; all are closed

absl::StatusOr<sockaddr_un> AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        fmt::format("agent socket {}: the path has {} bytes, a unix socket allows {}; choose a shorter one", path, path.size(),
                    sizeof(address.sun_path) - 1));
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

/// Makes room for our socket: only a socket nobody answers on is ever removed.
absl::Status RemoveStale(const std::string& path, const sockaddr_un& address) {
  struct stat file{};
  if (lstat(path.c_str(), &file) != 0) return absl::OkStatus();
  if (!S_ISSOCK(file.st_mode)) {
    return absl::FailedPreconditionError(
        fmt::format("agent socket {}: something that is no socket lies there; move it away", path));
  }
  const unique_fd probe(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int result = connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  if (result == 0 || errno == EAGAIN) {
    return absl::FailedPreconditionError(
        fmt::format("agent socket {}: another daemon answers there; stop it or choose another path", path));
  }
  if (errno != ECONNREFUSED) return ErrnoStatus(errno, fmt::format("connect({})", path));
  if (unlink(path.c_str()) != 0) return ErrnoStatus(errno, fmt::format("unlink({})", path));
  return absl::OkStatus();
}

/// Whether `fd` is the listening socket that a connect to `address` reaches.
bool ListensAt(int fd, const sockaddr_un& address) {
  int listens = 0;
  socklen_t size = sizeof(listens);
  if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) return false;
  sockaddr_un bound{};
  size = sizeof(bound);
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &size) != 0 || bound.sun_family != AF_UNIX) return false;
  struct stat file{};
  if (std::strcmp(bound.sun_path, address.sun_path) != 0 || lstat(bound.sun_path, &file) != 0) return false;
  return S_ISSOCK(file.st_mode) && fcntl(fd, F_SETFL, O_NONBLOCK) == 0;
}

absl::Status MakeFolder(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty() || std::filesystem::exists(folder)) return absl::OkStatus();
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return ErrnoStatus(error.value(), fmt::format("mkdir({})", folder.string()));
  chmod(folder.c_str(), 0755);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<AgentSocket>> AgentSocket::Listen(const std::string& path, const Limits& limits, Events events,
                                                                 unique_fd kept) {
  STEPSCOPE_ASSIGN_OR_RETURN(const sockaddr_un address, AddressOf(path));
  if (ListensAt(kept.get(), address)) {
    return std::unique_ptr<AgentSocket>(new AgentSocket(path, limits, std::move(events), std::move(kept)));
  }
  kept.reset();
  STEPSCOPE_RETURN_IF_ERROR(MakeFolder(path));
  STEPSCOPE_RETURN_IF_ERROR(RemoveStale(path, address));
  unique_fd listener(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.ok()) return ErrnoStatus(errno, "socket(AF_UNIX)");
  if (bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return ErrnoStatus(errno, fmt::format("bind({})", path), "choose another path with [agent] socket or --socket");
  }
  if (chmod(path.c_str(), 0666) != 0) return ErrnoStatus(errno, fmt::format("chmod({})", path));
  if (listen(listener.get(), 4096) != 0) return ErrnoStatus(errno, fmt::format("listen({})", path));
  return std::unique_ptr<AgentSocket>(new AgentSocket(path, limits, std::move(events), std::move(listener)));
}

AgentSocket::AgentSocket(std::string path, Limits limits, Events events, unique_fd listener)
    : path_(std::move(path)), limits_(limits), events_(std::move(events)), listener_(std::move(listener)) {}

AgentSocket::~AgentSocket() {
  if (!leaves_path_) unlink(path_.c_str());
}

void AgentSocket::Watch(int epoll_fd) {
  epoll_fd_ = epoll_fd;
  epoll_event event{EPOLLIN, {.fd = listener_.get()}};
  epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, listener_.get(), &event);
}

void AgentSocket::Pause(bool paused) {
  if (paused == std::exchange(paused_, paused)) return;
  epoll_event event{paused ? 0u : EPOLLIN, {.fd = listener_.get()}};
  epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, listener_.get(), &event);
}

bool AgentSocket::OnReadable(int fd, int64_t now_ns) {
  if (fd == listener_.get()) {
    Accept(now_ns, kAcceptAtOnce);
    return true;
  }
  if (!waiting_.contains(fd)) return false;
  ReadHello(fd);
  return true;
}

void AgentSocket::ServeAll(int64_t now_ns) {
  Accept(now_ns, SIZE_MAX);
  std::vector<int> fds;
  fds.reserve(waiting_.size());
  for (const auto& [fd, peer] : waiting_) fds.push_back(fd);
  for (const int fd : fds) ReadHello(fd);
}

void AgentSocket::Expire(int64_t now_ns) {
  std::vector<int> late;
  for (const auto& [fd, peer] : waiting_) {
    if (now_ns - peer.since_ns >= limits_.hello_timeout_ns) late.push_back(fd);
  }
  for (const int fd : late) Drop(fd, STEPSCOPE_HELLO_BAD_MESSAGE, "no hello in time");
  std::erase_if(users_,
                [&](const auto& user) { return user.second.waiting == 0 && now_ns - user.second.filled_ns > 60 * kNsPerSecond; });
}

void AgentSocket::Accept(int64_t now_ns, size_t most) {
  for (size_t accepted = 0; accepted < most; ++accepted) {
    unique_fd connection(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.ok() && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (!connection.ok()) {
      if (errno == EMFILE || errno == ENFILE) {
        events_.refused(0, "the daemon is out of file descriptors");
        usleep(10'000);  // the listener stays readable: do not spin on it
      }
      return;
    }
    ucred credentials{};
    socklen_t size = sizeof(credentials);
    if (getsockopt(connection.get(), SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) continue;
    if (!AdmitUser(credentials.uid, now_ns)) {
      Refuse(connection.get(), STEPSCOPE_HELLO_BUSY);
      events_.refused(credentials.uid, "too many hellos of one user");
      continue;
    }
    const int fd = connection.get();
    ++users_[credentials.uid].waiting;
    waiting_[fd] = {std::move(connection), {}, false, {}, credentials.uid, now_ns};
    epoll_event event{EPOLLIN, {.fd = fd}};
    epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, fd, &event);
    ReadHello(fd);  // an agent sends its hello with its connect
  }
}

bool AgentSocket::AdmitUser(uint32_t uid, int64_t now_ns) {
  User& user = users_[uid];
  if (user.filled_ns == 0) user = {limits_.hello_burst, now_ns, 0};
  const double passed_s = static_cast<double>(now_ns - user.filled_ns) / 1e9;
  user.tokens = std::min(limits_.hello_burst, user.tokens + passed_s * limits_.hellos_per_second);
  user.filled_ns = now_ns;
  if (user.tokens < 1 || user.waiting >= limits_.waiting_per_user) return false;
  user.tokens -= 1;
  return true;
}

void AgentSocket::ReadHello(int fd) {
  std::string refusal;
  Waiting& peer = waiting_.at(fd);
  if (foreign_.Full(peer.uid)) return Drop(fd, STEPSCOPE_HELLO_BUSY, "files of that user do not close");
  while (Receive(peer, &refusal)) {
  }
  if (!refusal.empty()) return Drop(fd, STEPSCOPE_HELLO_BAD_MESSAGE, refusal);
  const auto bytes = std::as_bytes(std::span(peer.bytes));
  if (bytes.size() < sizeof(stepscope_hello)) return;
  const auto wanted = HelloBytes(bytes);
  if (!wanted.ok() || bytes.size() < *wanted) return;
  auto hello = ParseHello(bytes);
  if (!hello.ok()) return Drop(fd, STEPSCOPE_HELLO_BAD_MESSAGE, std::string(hello.status().message()));
  if (!peer.ring_file.ok()) {
    return Drop(fd, STEPSCOPE_HELLO_BAD_FILE, peer.foreign_file ? "the ring file is not a memfd" : "hello without a ring file");
  }
  if (hello->message.uid != peer.uid) return Drop(fd, STEPSCOPE_HELLO_DENIED, "hello claims another user");
  Waiting complete = Release(fd);
  events_.hello({std::move(complete.connection), std::move(complete.ring_file), *std::move(hello)});
}

bool AgentSocket::Receive(Waiting& peer, std::string* refusal) {
  size_t wanted = sizeof(stepscope_hello);
  if (peer.bytes.size() >= wanted) {
    const auto whole = HelloBytes(std::as_bytes(std::span(peer.bytes)));
    if (!whole.ok()) return *refusal = std::string(whole.status().message()), false;
    wanted = *whole;
  }
  if (peer.bytes.size() >= wanted) return false;
  char part[STEPSCOPE_HELLO_MAX_BYTES];
  iovec vector{part, wanted - peer.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  msghdr header{};
  header.msg_iov = &vector;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  const ssize_t got = recvmsg(peer.connection.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (got <= 0) return *refusal = "closed before its hello was complete", false;
  if (!TakeDescriptors(header, peer)) return *refusal = "hello with more than one file", false;
  peer.bytes.append(part, static_cast<size_t>(got));
  return true;
}

/// Keeps the one descriptor a hello carries; false when there were more, or some were cut off.
bool AgentSocket::TakeDescriptors(msghdr& header, Waiting& peer) {
  bool one = (header.msg_flags & MSG_CTRUNC) == 0;
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(fd));
      unique_fd received(fd);
      if (peer.ring_file.ok() || peer.foreign_file) one = false;
      if (ForeignFiles::IsMemory(fd)) {
        peer.ring_file = std::move(received);
      } else {
        peer.foreign_file = true;
        foreign_.Close(peer.uid, std::move(received));
      }
    }
  }
  return one;
}

AgentSocket::Waiting AgentSocket::Release(int fd) {
  epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, nullptr);
  Waiting peer = std::move(waiting_.extract(fd).mapped());
  --users_[peer.uid].waiting;
  return peer;
}

void AgentSocket::Drop(int fd, stepscope_hello_status status, const std::string& reason) {
  const Waiting peer = Release(fd);
  events_.refused(peer.uid, reason);
  Refuse(peer.connection.get(), status);
}

void AgentSocket::Refuse(int connection, stepscope_hello_status status) {
  const std::string reply = EncodeHelloReply(status, {}, {});
  [[maybe_unused]] const ssize_t sent = send(connection, reply.data(), reply.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
}

}  // namespace stepscope
