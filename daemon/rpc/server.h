// SPDX-License-Identifier: Apache-2.0
// RpcServer: QueryService, ControlService, health and reflection on a loopback port and on the control socket.
//
//   gRPC threads ── query pool (2 threads, nice 10) ── QueryService
//              └─── control pool (2 threads) ───────── ControlService
//
// Thread rule: Start and Stop from one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "daemon/rpc/parts.h"

namespace stepscope {

class RpcServer {
 public:
  struct Options {
    /// host:port. Only loopback: anything else needs TLS or a token, which this release does not have, and is refused. Port 0
    /// takes any free one; another port that is taken gives way to the next free of the 20 after it.
    std::string address = "127.0.0.1:7461";
    std::string control_socket;  ///< path, mode 0600; empty = none
  };
  struct Bound {
    std::string address;  ///< 127.0.0.1:7461
    uint16_t port = 0;
    std::string control_socket;
  };

  explicit RpcServer(RpcParts parts);
  ~RpcServer();
  absl::StatusOr<Bound> Start(const Options& options);
  /// Lets running calls end within half a second, then cancels them and the streams.
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepscope
