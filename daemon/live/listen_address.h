// SPDX-License-Identifier: Apache-2.0
// The rules for the daemon's TCP ports: loopback only, and the next free one if the wanted one is taken.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace stepscope {

struct ListenAddress {
  std::string host;  ///< "127.0.0.1", "[::1]"
  uint16_t port = 0;
  std::string Text() const;
};

/// "127.0.0.1:7461", "localhost:0", "[::1]:7461". INVALID_ARGUMENT for text that is no address, FAILED_PRECONDITION for one that
/// other machines can reach. `what` names it in the message ("gRPC address").
absl::StatusOr<ListenAddress> ParseLoopback(const std::string& text, const std::string& what);

constexpr int kPortsTried = 21;
/// Whether nobody listens there right now.
bool IsFree(const ListenAddress& address);
/// Begins a connection to it and drops it: wakes a server that waits for one.
void Knock(const ListenAddress& address);

}  // namespace stepscope
