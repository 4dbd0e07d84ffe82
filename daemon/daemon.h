// SPDX-License-Identifier: Apache-2.0
// Daemon: all parts of stepscoped, built in dependency order and wired. Nothing here decides anything about data.
//
//   store ─► jobs, pipeline ─► sched collector, ingest ─► uploader ─► rpc, web
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "daemon/config.h"
#include "daemon/fd_store.h"

namespace stepscope {

class Daemon {
 public:
  struct Options {
    Config config;
    bool is_private = false;  ///< its own data directory, any free ports, agent.sock inside it
    FdStore* fds = nullptr;   ///< outlives the daemon; null: no service manager
  };
  /// Starts every part. A collector that cannot run is a state, not an error; a store that cannot be opened is an error.
  static absl::StatusOr<std::unique_ptr<Daemon>> Start(const Options& options);
  virtual ~Daemon() = default;

  /// Job life cycle; call once a second.
  virtual void Tick() = 0;
  /// OK while every part works.
  virtual absl::Status Health() const = 0;
  /// Stops sources first, then the pipeline, then the store: everything accepted is stored.
  virtual void Stop() = 0;
};

}  // namespace stepscope
