// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/peer_uid.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>

namespace stepscope {
namespace {

constexpr int kEstablished = 1;

/// An IPv6 address, IPv4 as ::ffff:a.b.c.d, in network order.
struct Endpoint {
  std::array<uint8_t, 16> address{};
  uint16_t port = 0;
  friend bool operator==(const Endpoint&, const Endpoint&) = default;
};

std::array<uint8_t, 16> Mapped(const uint8_t* ipv4) {
  std::array<uint8_t, 16> address{};
  address[10] = address[11] = 0xFF;
  std::memcpy(address.data() + 12, ipv4, 4);
  return address;
}

bool IsLoopback(const Endpoint& endpoint) {
  std::array<uint8_t, 16> one{};
  one[15] = 1;
  const bool mapped = std::memcmp(endpoint.address.data(), Mapped(one.data()).data(), 12) == 0;
  return endpoint.address == one || (mapped && endpoint.address[12] == 127);
}

template <typename Int>
bool ParseNumber(std::string_view text, int base, Int* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value, base);
  return error == std::errc() && end == text.data() + text.size();
}

/// "ipv4:127.0.0.1:7" or "ipv6:%5B::1%5D:7".
std::optional<Endpoint> ParsePeer(std::string peer) {
  for (const auto& [from, to] : {std::pair{"%5B", "["}, std::pair{"%5D", "]"}}) {
    if (const size_t at = peer.find(from); at != std::string::npos) peer.replace(at, 3, to);
  }
  const bool v4 = peer.starts_with("ipv4:");
  if (!v4 && !peer.starts_with("ipv6:[")) return std::nullopt;
  const size_t colon = peer.rfind(':');
  Endpoint endpoint;
  if (colon <= 5 || !ParseNumber(std::string_view(peer).substr(colon + 1), 10, &endpoint.port)) return std::nullopt;
  const std::string address = v4 ? peer.substr(5, colon - 5) : peer.substr(6, colon - 7);
  uint8_t ipv4[4];
  if (v4 ? inet_pton(AF_INET, address.c_str(), ipv4) != 1 : inet_pton(AF_INET6, address.c_str(), endpoint.address.data()) != 1) {
    return std::nullopt;
  }
  if (v4) endpoint.address = Mapped(ipv4);
  return endpoint;
}

/// "0100007F:1D25": 32-bit words of the network-order address printed as host integers, and the port.
std::optional<Endpoint> ParseProcEndpoint(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon != 8 && colon != 32) return std::nullopt;
  Endpoint endpoint;
  uint8_t bytes[16];
  for (size_t word = 0; word < colon / 8; ++word) {
    uint32_t value = 0;
    if (!ParseNumber(text.substr(word * 8, 8), 16, &value)) return std::nullopt;
    std::memcpy(bytes + word * 4, &value, 4);
  }
  if (colon == 8) {
    endpoint.address = Mapped(bytes);
  } else {
    std::memcpy(endpoint.address.data(), bytes, 16);
  }
  if (!ParseNumber(text.substr(colon + 1), 16, &endpoint.port)) return std::nullopt;
  return endpoint;
}

std::optional<uint32_t> UidOfSocket(const Endpoint& client, uint16_t server_port, const std::string& table) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::istringstream fields(line);
    std::string slot, local, remote, state_text, queues, timer, retransmits;
    uint32_t uid = 0;
    uint64_t timeout = 0, inode = 0;
    if (!(fields >> slot >> local >> remote >> state_text >> queues >> timer >> retransmits >> uid >> timeout >> inode)) continue;
    int state = 0;
    if (!ParseNumber(state_text, 16, &state) || state != kEstablished || inode == 0) continue;
    const auto here = ParseProcEndpoint(local);
    const auto there = ParseProcEndpoint(remote);
    if (here == client && there && there->port == server_port && IsLoopback(*there)) return uid;
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<uint32_t> PeerUid(const std::string& peer, uint16_t server_port, uint32_t own_uid, const std::string& proc) {
  if (peer.starts_with("unix:")) return own_uid;
  const auto endpoint = ParsePeer(peer);
  if (endpoint && IsLoopback(*endpoint)) {
    for (const char* table : {"/net/tcp", "/net/tcp6"}) {
      if (const auto uid = UidOfSocket(*endpoint, server_port, proc + table)) return *uid;
    }
  }
  return absl::PermissionDeniedError(
      fmt::format("cannot tell which user {} belongs to: no open connection of it in {}/net/tcp; call from this node, or as root "
                  "through the control socket",
                  peer, proc));
}

}  // namespace stepscope
