// SPDX-License-Identifier: Apache-2.0
#include "daemon/service_socket.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <utility>

#include "base/unique_fd.h"

namespace stepscope {
namespace {

constexpr int kFirstFd = 3;  // by sd_listen_fds(3)

std::string_view Variable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? std::string_view() : value;
}

int Number(std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

/// Sends one message, with a descriptor unless `fd` is negative.
bool Tell(std::string state, int fd) {
  const std::string_view path = Variable("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) return path.empty();
  std::memcpy(address.sun_path, path.data(), path.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';
  const unique_fd socket_fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket_fd.ok()) return false;
  const timeval patience{1, 0};
  setsockopt(socket_fd.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  iovec text{state.data(), state.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_name = &address;
  message.msg_namelen = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  message.msg_iov = &text;
  message.msg_iovlen = 1;
  if (fd >= 0) {
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof(fd));
  }
  return sendmsg(socket_fd.get(), &message, MSG_NOSIGNAL) == static_cast<ssize_t>(state.size());
}

std::vector<KeptFd> ListenFds() {
  std::vector<KeptFd> kept;
  const int count = Number(Variable("LISTEN_PID")) == getpid() ? Number(Variable("LISTEN_FDS")) : 0;
  std::string_view names = Variable("LISTEN_FDNAMES");
  for (int fd = kFirstFd; fd - kFirstFd < count && fcntl(fd, F_GETFD) >= 0; ++fd) {
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    const std::string_view name = names.substr(0, names.find(':'));
    names.remove_prefix(std::min(name.size() + 1, names.size()));
    kept.push_back({std::string(name), unique_fd(fd)});
  }
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) unsetenv(name);
  return kept;
}

class NotifyFdStore final : public FdStore {
 public:
  explicit NotifyFdStore(std::vector<KeptFd> kept) : kept_(std::move(kept)) {}
  std::vector<KeptFd> Take() override { return std::exchange(kept_, {}); }
  // FDPOLL=0: kept until removed; a pidfd or socket would else go at its end.
  bool Keep(const std::string& name, int fd) override { return Tell(fmt::format("FDSTORE=1\nFDNAME={}\nFDPOLL=0", name), fd); }
  void Remove(const std::string& name) override { Tell(fmt::format("FDSTOREREMOVE=1\nFDNAME={}", name), -1); }

 private:
  std::vector<KeptFd> kept_;  ///< before the first thread only
};

}  // namespace

bool NotifyServiceManager(const std::string& state) { return Tell(state, -1); }

std::unique_ptr<FdStore> ServiceFdStore() {
  if (Variable("NOTIFY_SOCKET").empty()) return nullptr;
  return std::make_unique<NotifyFdStore>(ListenFds());
}

}  // namespace stepscope
