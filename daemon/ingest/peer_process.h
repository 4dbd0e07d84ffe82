// SPDX-License-Identifier: Apache-2.0
// PeerProcess: who is at the other end of an agent's socket, by the kernel's word (SO_PEERCRED, pidfd, /proc), never by its own.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "daemon/ingest/inner_tids.h"
#include "daemon/jobs/job_table.h"

namespace stepscope {

struct PeerProcess {
  ProcessKey key;  ///< start_ticks 0 when the process was gone before it could be looked at
  uint32_t uid = 0;
  unique_fd pidfd;  ///< readable once the process is dead; not ok() = it was gone already
  std::string comm;
  bool own_pid_namespace = false;   ///< its ids differ from the host's
  bool own_time_namespace = false;  ///< its CLOCK_MONOTONIC may differ from the node's
};

/// `inner_pid` is what the process calls itself. PERMISSION_DENIED for a peer the daemon cannot see (a process of an unrelated
/// pid namespace) and for a live one with another pid. Before Linux 6.5 the kernel does not say whether the process that has the
/// pid now is the peer: one that calls itself otherwise is taken for a reused pid, and the peer for gone.
absl::StatusOr<PeerProcess> ReadPeerProcess(int socket, int32_t inner_pid);

/// A pidfd of that very process, not of another that has its pid by now; not ok() when it ended.
unique_fd OpenSameProcess(ProcessKey key);

/// Host tids of a process in its own pid namespace: by the kernel's announcements where it is followed, else by the NSpid lines
/// of its tasks.
class HostTids {
 public:
  /// `announced` outlives this.
  HostTids(const PeerProcess& peer, int32_t inner_pid, const InnerTids* announced)
      : process_(peer.key), inner_pid_(inner_pid), own_namespace_(peer.own_pid_namespace), announced_(announced) {}
  /// -inner when the thread was gone before it could be looked up.
  int32_t Of(int32_t inner);
  /// Another thread has that inner tid now.
  void Began(int32_t inner) { scanned_.erase(inner); }

 private:
  static constexpr int kAsksPerSecond = 200;

  bool MayAsk();
  void Scan();

  ProcessKey process_;
  int32_t inner_pid_;
  bool own_namespace_;
  const InnerTids* announced_;
  std::unordered_map<int32_t, int32_t> scanned_;
  int64_t asked_since_ns_ = 0;
  int asked_ = 0;
};

}  // namespace stepscope
