// SPDX-License-Identifier: Apache-2.0
// OwnCollector: CPU scheduling of tracked process trees without BPF: from perf context-switch records where perf is allowed,
// which it ordinarily is for processes of the same user; else from the kernel's sums per thread in /proc. It always starts.
//
//            with perf rings                                    without
//   turns    one row per turn, from in and out records          none
//   tree     announced by fork, exec and exit records           found by a scan of /proc once a second
//   sums     running and waiting time per process, each second  the same
//
// Guarantees: a turn is one row, or within what a loss row counts; a value that is not known is marked so, never estimated. The
// daemon's own process is never followed.
//
// Thread rule: public calls from any thread except the collector's own (Untrack also from there: it is queued). Ids are those
// of the daemon's pid namespace.
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "base/time.h"
#include "daemon/collector/mailbox_thread.h"
#include "daemon/collector/own/own_rows.h"
#include "daemon/collector/own/own_tasks.h"
#include "daemon/collector/own/switch_rings.h"
#include "daemon/collector/sched_proc_scan.h"
#include "daemon/collector/slice_source.h"
#include "daemon/collector/task_observer.h"
#include "daemon/pipeline/delivery.h"

namespace stepscope {

struct OwnOptions {
  bool use_perf = true;                        ///< false: sums of /proc only
  size_t ring_pages = 0;                       ///< of each CPU's ring; 0 = by the number of CPUs
  std::chrono::milliseconds drain_period{20};  ///< of the rings; 20–50 ms
  std::chrono::milliseconds sweep_period{1000};
  size_t rows_per_delivery = 16384;
  std::string proc_root = "/proc";
};

class OwnCollector final : public SliceSource {
 public:
  /// `sink`, `observer` (may be null) and `clock` outlive the collector.
  OwnCollector(OwnOptions options, DeliverySink* sink, TaskObserver* observer, const Clock* clock);
  ~OwnCollector() override;

  /// Opens the perf rings if it may, and starts the thread. Returns why there are no rings; the collector works all the same.
  absl::Status Start();
  /// How the level it works at is to be shown: level, reason, next step, what works. Call before anything is tracked.
  void Describe(const CollectorState& level);

  absl::Status Track(Pid root, RunId run) override;
  absl::Status Untrack(RunId run) override;
  absl::Status Flush() override;
  void Stop() override;
  CollectorState State() const override;

 private:
  struct Ending {
    ProcessKey key;
    uint64_t seen_in_drain;
  };

  // The collector's thread: events (own_collector.cc).
  void Wait();
  void Tick();
  void DrainRings(bool until_now);
  void Deliver();

  // The collector's thread: what records say (own_collector.cc).
  void Handle(const SwitchRecord& record);
  void HandleSwitch(const SwitchRecord& record);
  void HandleFork(const SwitchRecord& record);
  void HandleExit(const SwitchRecord& record);
  void HandleComm(const SwitchRecord& record);
  void HandleLost(const SwitchRecord& record);
  OwnThread* ThreadOf(const SwitchRecord& record);
  void TakeOverTurns(const SwitchRecord& exec);

  // The collector's thread: who is followed (own_follow.cc).
  absl::Status TrackNow(Pid root, RunId run);
  absl::Status UntrackNow(RunId run);
  std::vector<ProcStat> UnknownDescendants(RunId run);
  std::vector<std::pair<int32_t, int32_t>> UnknownThreads(RunId run);
  bool FollowUnannounced(RunId run);
  void FollowFound(ProcessKey key, RunId run, ProcessKey parent);
  OwnProcess& Follow(ProcessKey key, RunId run, ProcessKey parent);
  void FollowFoundThreads(OwnProcess& process);
  OwnThread& AddFound(OwnProcess& process, int32_t tid);
  void Announce(OwnThread& thread, std::string comm, bool is_new);
  void NameProcess(const OwnProcess& process);
  void Cover(OwnThread& thread);
  void EndProcess(int32_t tgid);
  void LetGoOfReused();
  void FinishEnded();
  int64_t StartTicks(int32_t tgid, int64_t time_ns) const;

  // The collector's thread: once a second (own_sweep.cc).
  void Sweep();
  void SweepProcess(OwnProcess& process);
  ThreadSums SweepThreads(OwnProcess& process, const std::set<int32_t>& listed);
  void SweepListed(OwnProcess& process, const std::vector<int32_t>& listed);
  void CoverIfSilent(OwnThread& thread, bool has_run);

  const OwnOptions options_;
  DeliverySink* const sink_;
  TaskObserver* const observer_;
  const Clock* const clock_;
  const ProcScan proc_;

  std::unique_ptr<SwitchRings> rings_;
  MailboxThread thread_{"sched"};

  mutable std::mutex mutex_;
  CollectorState state_;  // under mutex_

  OwnTasks tasks_;
  OwnRows rows_;
  std::vector<EntityNote> notes_;
  std::set<RunId> runs_;
  std::vector<SwitchRecord> held_;  ///< younger than what every ring is known to have delivered
  std::vector<Ending> ending_;
  uint64_t drains_ = 0;
  bool needs_scan_ = false;  ///< announcements may have been lost
  NodeTime drained_;
  NodeTime swept_;

  std::atomic<uint64_t> records_{0}, slices_{0}, unplaced_{0}, refused_rows_{0}, records_lost_{0}, threads_refused_{0},
      malformed_{0}, processes_{0}, live_threads_{0};
};

}  // namespace stepscope
