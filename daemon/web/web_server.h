// SPDX-License-Identifier: Apache-2.0
// WebServer: /healthz, /readyz and /metrics on a loopback port; the user interface will come from here too.
//
// GET and HEAD only. The Host header must name this machine's loopback, so that a web page that resolves its own name to
// 127.0.0.1 (DNS rebinding) reads nothing. No CORS header is ever sent. Requests are bounded in size and time, connections in
// number.
//
// Thread rule: Start and Stop from one thread; requests are served on the server's own threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/web/metrics.h"

namespace stepscope {

struct WebParts {
  MetricParts metrics;
  /// Why the daemon cannot take records right now; OK = ready. May be empty.
  std::function<absl::Status()> ready;
  std::string grpc_address;  ///< shown on /
};

class WebServer {
 public:
  struct Options {
    /// host:port as for RpcServer: loopback only, port 0 = any, a taken port gives way to the next free one of 20.
    std::string address = "127.0.0.1:7462";
  };
  explicit WebServer(WebParts parts);
  ~WebServer();
  /// The address bound, "127.0.0.1:7462".
  absl::StatusOr<std::string> Start(const Options& options);
  void Stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace stepscope
