// SPDX-License-Identifier: Apache-2.0
// Ingest: takes the rings of recorded processes into the pipeline, while they live (pushed by their sender), when they are
// silent and when they are dead (read by the daemon itself), each byte once.
//
//   agent ── hello + ring file ──► AgentSocket ──► Session ◄── pieces ── PushService ◄── HTTP/2 on the same socket
//                                                  │    ▲
//   pidfd, heartbeat ── ingest thread ── tasks ──► worker ──► DeliverySink ──► on_stored ──► acknowledgement
//
// Threads: "ingest" (epoll: accept, hellos, deaths, the poll clock) and "ingest_work" (everything that decodes or may wait for
// the pipeline). Public methods may be called from any thread.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/time.h"
#include "daemon/ingest/ingest_stats.h"
#include "daemon/ingest/inner_tids.h"
#include "daemon/ingest/session_park.h"
#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/clock_registry.h"
#include "daemon/pipeline/delivery.h"
#include "storage/store.h"

namespace stepscope {

class Ingest {
 public:
  struct Options {
    std::string socket_path;
    size_t max_sessions = 4096;
    size_t max_sessions_per_user = 2048;
    int64_t poll_ns = 100 * kNsPerMillisecond;        ///< between two looks at the rings
    int64_t quiet_poll_ns = 250 * kNsPerMillisecond;  ///< while nobody watches
    int64_t hello_timeout_ns = 5 * kNsPerSecond;
  };
  /// All outlive the Ingest; callbacks of deliveries may still run after it is gone.
  struct Parts {
    Store* store;
    DeliverySink* sink;
    ClockRegistry* clocks;
    SessionJobs* jobs;
    const InnerTids* tids;
    FdStore* fds = nullptr;                               ///< null: no service manager
    std::function<bool()> watched = [] { return true; };  ///< whether rows are wanted soon
  };
  /// Goes on with `parked`, listens and starts. Errors name the socket path and what to do.
  static absl::StatusOr<std::unique_ptr<Ingest>> Start(const Options& options, const Parts& parts, ParkedSessions parked = {});
  virtual ~Ingest() = default;
  /// Ends streams and threads. What was not delivered stays in the rings. Call before the pipeline stops.
  virtual void Stop() = 0;
  /// Takes everything the processes of `run` have committed so far and returns when it is stored: at the end of a job.
  /// DEADLINE_EXCEEDED when the store took longer than `timeout_ns`.
  virtual absl::Status FlushSessions(RunId run, int64_t timeout_ns = 10 * kNsPerSecond) = 0;
  virtual IngestNumbers Stats() const = 0;
};

}  // namespace stepscope
