// SPDX-License-Identifier: Apache-2.0
// SessionPark: what the next daemon needs of the sessions of this one. A record of each session lies in the store (meta kind
// "session"), its ring file and the listening socket with the service manager (FdStore). A process may then end, or begin and
// end, while no daemon runs: the next one reads its rings from the stored positions on.
//
//   hello ──► Keep(record, ring file) … last byte stored ──► Forget
//   start ──► Take: record and ring file that fit together ──► a session as after its hello; everything else is closed
//
// What comes back is checked like a hello. Without an FdStore the records alone remain: they tell which positions in the store
// belong to processes that ended unseen.
//
// Thread rule: Take before the others; those from any thread.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ids.h"
#include "base/unique_fd.h"
#include "daemon/fd_store.h"
#include "daemon/ingest/hello_message.h"
#include "daemon/ingest/peer_process.h"
#include "daemon/ingest/ring_file.h"
#include "storage/store.h"

namespace stepscope {

namespace store::v1 {
class SessionRecord;
}

/// All that is known of a session when it begins.
struct SessionBirth {
  Hello hello;
  PeerProcess process;  ///< without a pidfd once it ended
  RingFile file;
  RunId run;
  int64_t clock_offset_ns = 0;  ///< node time minus the process's CLOCK_MONOTONIC
};

struct ParkedSessions {
  std::vector<SessionBirth> sessions;
  unique_fd listener;

  /// Which process belongs to which run.
  std::vector<std::pair<RunId, ProcessKey>> Processes() const;
};

class SessionPark {
 public:
  /// `fds` may be null: no service manager. Both outlive this.
  SessionPark(Store* store, FdStore* fds) : store_(store), fds_(fds) {}

  /// What the daemon before left. Forgets sessions of processes that ended and whose ring file nobody kept.
  absl::StatusOr<ParkedSessions> Take();
  /// Remembers a session that was just taken. A failure is logged: the session works, but not beyond this daemon.
  void Keep(const SessionBirth& session);
  /// The session is over and stored. What the store knows of it goes at once: half of it would be stored a second time.
  void Forget(const std::string& session);
  /// Keeps it instead of the one before. True when the listening socket will outlive the daemon.
  bool KeepListener(int fd);

 private:
  using Files = std::map<std::string, unique_fd>;
  absl::StatusOr<SessionBirth> Restore(const store::v1::SessionRecord& record, unique_fd file) const;
  void CloseUnknown(const Files& files);

  Store* store_;
  FdStore* fds_;
};

}  // namespace stepscope
