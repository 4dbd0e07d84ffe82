// SPDX-License-Identifier: Apache-2.0
// Which user is at the other end of a connection.
//
//   unix socket    its file is 0600, so the kernel has let in only the daemon's own uid and root
//   loopback TCP   the client's end of the connection is a row of /proc/net/tcp{,6} that carries the uid of its socket. Only
//                  an ESTABLISHED row with an inode counts: closed and orphaned sockets are listed with uid 0.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace stepscope {

/// `peer` as grpc::ServerContext::peer() gives it. PERMISSION_DENIED, with the next step, when the user cannot be told.
absl::StatusOr<uint32_t> PeerUid(const std::string& peer, uint16_t server_port, uint32_t own_uid, const std::string& proc);

}  // namespace stepscope
