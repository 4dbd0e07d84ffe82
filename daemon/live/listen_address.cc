// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/listen_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>

#include <charconv>
#include <cstring>

#include "base/unique_fd.h"

namespace stepscope {
namespace {

bool IsLoopbackHost(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return host == "[::1]";
}

/// A loopback address as system calls take it.
class SocketPlace {
 public:
  explicit SocketPlace(const ListenAddress& address) : v6_(address.host.front() == '[') {
    a6_.sin6_family = AF_INET6;
    a6_.sin6_addr = in6addr_loopback;
    a6_.sin6_port = htons(address.port);
    a4_.sin_family = AF_INET;
    a4_.sin_port = htons(address.port);
    inet_pton(AF_INET, address.host.c_str(), &a4_.sin_addr);
  }
  int family() const { return v6_ ? AF_INET6 : AF_INET; }
  const sockaddr* get() const { return v6_ ? reinterpret_cast<const sockaddr*>(&a6_) : reinterpret_cast<const sockaddr*>(&a4_); }
  socklen_t bytes() const { return v6_ ? sizeof(a6_) : sizeof(a4_); }

 private:
  bool v6_;
  sockaddr_in6 a6_{};
  sockaddr_in a4_{};
};

}  // namespace

std::string ListenAddress::Text() const { return fmt::format("{}:{}", host, port); }

absl::StatusOr<ListenAddress> ParseLoopback(const std::string& text, const std::string& what) {
  const size_t colon = text.rfind(':');
  ListenAddress address;
  const char* end = text.data() + text.size();
  std::from_chars_result port{nullptr, std::errc::invalid_argument};
  if (colon != std::string::npos && colon > 0) port = std::from_chars(text.data() + colon + 1, end, address.port);
  if (port.ec != std::errc() || port.ptr != end) {
    return absl::InvalidArgumentError(fmt::format("{} \"{}\" is not host:port; write for example 127.0.0.1:7461", what, text));
  }
  address.host = text.substr(0, colon);
  if (address.host == "localhost") address.host = "127.0.0.1";
  if (!IsLoopbackHost(address.host)) {
    return absl::FailedPreconditionError(fmt::format(
        "{} {} can be reached from other machines, and this release has neither TLS nor tokens to tell callers apart; "
        "use 127.0.0.1:{} and, from elsewhere, ssh -L {}:127.0.0.1:{} NODE",
        what, text, address.port, address.port, address.port));
  }
  return address;
}

bool IsFree(const ListenAddress& address) {
  const SocketPlace place(address);
  const unique_fd fd(socket(place.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.ok()) return false;
  const int on = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));  // a port in TIME_WAIT is free
  return bind(fd.get(), place.get(), place.bytes()) == 0 && listen(fd.get(), 1) == 0;
}

void Knock(const ListenAddress& address) {
  const SocketPlace place(address);
  const unique_fd fd(socket(place.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.ok()) return;
  [[maybe_unused]] const int refused = connect(fd.get(), place.get(), place.bytes());
}

}  // namespace stepscope
