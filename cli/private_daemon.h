// SPDX-License-Identifier: Apache-2.0
// A daemon of our own: found through <data-dir>/daemon.json, or started for the duration of one command.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stepscope::cli {

struct DaemonAddress {
  std::string grpc;
  std::string http;
  std::string agent_socket;
  pid_t pid = 0;
};

/// The live daemon of a data directory; NOT_FOUND when there is none (a file left by a killed daemon counts as none).
absl::StatusOr<DaemonAddress> FindPrivateDaemon(const std::string& data_dir);

/// A stepscoped child. Stopped (SIGTERM, then waited for) when this object goes.
class PrivateDaemon {
 public:
  /// Starts one on `data_dir` and waits until it serves. The error carries what the daemon said.
  static absl::StatusOr<PrivateDaemon> Start(const std::string& data_dir, const std::vector<std::string>& overrides);
  PrivateDaemon(PrivateDaemon&& other) noexcept;
  PrivateDaemon& operator=(PrivateDaemon&&) = delete;
  ~PrivateDaemon();
  const DaemonAddress& address() const { return address_; }

 private:
  PrivateDaemon(pid_t pid, DaemonAddress address) : pid_(pid), address_(std::move(address)) {}
  pid_t pid_;
  DaemonAddress address_;
};

/// ~/.local/share/stepscope, or the XDG place.
std::string DefaultDataDir();

}  // namespace stepscope::cli
