// SPDX-License-Identifier: Apache-2.0
// PushService: AgentService (proto/stepscope/v1/agent.proto) on a gRPC server without a port. Connections arrive as sockets
// whose peer was already checked; the nonce of the hello's reply, as metadata, says which session a stream belongs to.
//
// Thread rule: any thread. gRPC threads never decode or wait: they hand pieces to `post` and read on when they were taken, so a
// full pipeline shows to the agent as a stream that is not read.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/unique_fd.h"
#include "daemon/ingest/session.h"

namespace stepscope {

class PushService {
 public:
  struct Parts {
    std::function<std::shared_ptr<Session>(const std::string& nonce)> session_of;  ///< nullptr = unknown
    std::function<void(std::function<void()>)> post;                               ///< to the worker
  };
  static absl::StatusOr<std::unique_ptr<PushService>> Start(Parts parts);
  virtual ~PushService() = default;
  /// Serves HTTP/2 on a connected socket.
  virtual void Serve(unique_fd connection) = 0;
  /// Ends all streams within a second.
  virtual void Stop() = 0;
};

}  // namespace stepscope
