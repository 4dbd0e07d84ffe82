// SPDX-License-Identifier: Apache-2.0
// SchedCollector: kernel scheduling records of tracked process trees, as sched_slice and loss batches.
//
//   Start ──► idle (programs loaded, detached, thread asleep) ──Track──► tracking (attached, rings drained by timer)
//                 ▲                                                          │
//                 └────────────────── last Untrack ──────────────────────────┘
//
// Guarantees: every switch-out of a followed thread is either one row or one count in a loss row (per CPU, each second while
// it changes); a process created by a followed one is followed from its first instruction. The daemon's own process never is.
//
// Thread rule: public calls from any thread except the sched thread (Untrack also from there: it is queued). Everything else
// belongs to the sched thread. Pids are those of the initial pid namespace, so the daemon has to run in it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "base/ids.h"
#include "base/time.h"
#include "daemon/collector/collector_state.h"
#include "daemon/collector/mailbox_thread.h"
#include "daemon/collector/occupant_names.h"
#include "daemon/collector/open_turn.h"
#include "daemon/collector/sched_proc_scan.h"
#include "daemon/collector/sched_programs.h"
#include "daemon/collector/sched_rows.h"
#include "daemon/collector/slice_source.h"
#include "daemon/collector/task_observer.h"
#include "daemon/collector/task_table.h"
#include "daemon/pipeline/delivery.h"

namespace stepscope {

struct SchedOptions {
  SchedProgramOptions programs;
  std::chrono::milliseconds drain_period{20};         ///< while something is tracked and watched; 10–50 ms
  std::chrono::milliseconds quiet_drain_period{250};  ///< while it is tracked only
  std::function<bool()> watched = [] { return true; };
  size_t rows_per_delivery = 16384;
  std::string proc_root = "/proc";
};

/// Totals since Start; any thread may read them.
struct SchedCounters {
  uint64_t records = 0;      ///< read from the rings, of any type
  uint64_t slices = 0;       ///< of them slices placed in a run
  uint64_t unplaced = 0;     ///< slices of no followed thread: written while their run was being untracked
  uint64_t refused = 0;      ///< rows the sink did not take (it was stopping)
  uint64_t slices_lost = 0;  ///< turns the kernel side had no room for
  uint64_t waits_lost = 0;
  uint64_t events_lost = 0;
  uint64_t processes = 0;  ///< followed now
  uint64_t threads = 0;
};

/// The kernel side's own books of one run, summed over CPUs.
struct SchedBooks {
  uint64_t slices = 0;
  uint64_t slices_lost = 0;
  uint64_t waits = 0;
  uint64_t waits_lost = 0;
  uint64_t events_lost = 0;
  uint64_t closed_switches = 0;  ///< switches of threads that died, since each one's first turn as followed
  uint64_t closed_threads = 0;
};

class SchedCollector final : public SliceSource {
 public:
  /// `sink`, `observer` (may be null) and `clock` outlive the collector.
  SchedCollector(SchedOptions options, DeliverySink* sink, TaskObserver* observer, const Clock* clock);
  ~SchedCollector() override;

  /// Loads the programs and starts the thread. On an error State() says which rights are missing; Track then fails, nothing else.
  absl::Status Start();
  /// A child of `root` that waits before its exec is followed from that exec on.
  absl::Status Track(Pid root, RunId run) override;
  absl::Status Untrack(RunId run) override;
  absl::Status Flush() override;
  void Stop() override;  ///< detaches, too
  CollectorState State() const override;
  /// Empty while nothing is tracked.
  std::vector<OpenTurn> OpenTurns() override;

  SchedCounters Counters() const;
  absl::StatusOr<SchedBooks> Books(RunId run);

 private:
  friend class SchedRecordFuzz;  // tests/fuzz: records without programs

  struct TrackedRun {
    RunId run;
    uint32_t uid = 0;                             ///< whose job it is
    std::vector<stepscope_sched_books> at_start;  ///< per CPU; the class may have served an earlier run
    std::vector<stepscope_sched_books> reported;
    stepscope_sched_histogram histogram_at_start{};  ///< mode as_histogram
  };
  struct HeldRecord {
    uint64_t time_ns;
    uint64_t arrival;                                     ///< order within a ring, kept among equal times
    std::array<std::byte, sizeof(stepscope_wait)> bytes;  // the largest record
    bool operator<(const HeldRecord& other) const {
      return std::pair(time_ns, arrival) < std::pair(other.time_ns, other.arrival);
    }
  };
  struct Ending {
    ProcessKey key;
    uint64_t seen_in_drain;
  };

  // Any thread.
  absl::Status Prepare();
  absl::Status Call(std::function<absl::Status()> work);

  // The sched thread.
  void Wait();
  void Tick();
  void DrainRings(bool until_now);
  void OnRecord(std::span<const std::byte> record);
  void Handle(std::span<const std::byte> record);
  void HandleSlice(const stepscope_slice& slice);
  void HandleWait(const stepscope_wait& wait);
  void HandleTaskEvent(const stepscope_task_event& event);
  void HandleExit(const stepscope_task_exit& exit);
  absl::Status TrackNow(Pid root, RunId run);
  absl::Status UntrackNow(RunId run);
  absl::StatusOr<uint8_t> ClassFor(RunId run);
  bool FollowFoundDescendants(uint8_t klass, RunId run);
  void FollowFound(ProcessKey key, RunId run, uint8_t klass, ProcessKey parent);
  TrackedProcess& Follow(ProcessKey key, RunId run, ProcessKey parent);
  TrackedProcess* Current(ProcessKey key);
  void FollowFoundThreads(TrackedProcess& process);
  void PrepareThreads(int32_t tgid);
  void NameThread(TrackedThread& thread, std::string comm, const InnerIds& inner, bool is_new);
  void NameProcess(const TrackedProcess& process);
  void EndProcess(int32_t tgid);
  void LetGo(int32_t tid, uint64_t seen_in_drain);
  void LetGoOfVanished();
  void FinishEnded();
  void SweepAgainstProc();
  void CheckBooks();
  void Deliver();

  const SchedOptions options_;
  DeliverySink* const sink_;
  TaskObserver* const observer_;
  const Clock* const clock_;
  const ProcScan proc_;
  const int64_t tick_ns_;  ///< of USER_HZ

  std::unique_ptr<SchedPrograms> programs_;
  MailboxThread thread_{"sched"};

  mutable std::mutex mutex_;
  CollectorState state_;  // under mutex_

  TaskTable tasks_;
  OccupantNames occupants_;
  SchedRows rows_;
  std::vector<EntityNote> notes_;
  std::unordered_map<uint8_t, TrackedRun> runs_;  ///< by class
  uint8_t last_class_ = STEPSCOPE_CLASS_US;
  std::vector<HeldRecord> held_;  ///< several rings only: records younger than what all rings are known to have delivered
  std::vector<Ending> ending_;
  std::vector<int32_t> vanished_;  ///< threads that /proc no longer lists and whose end was not read
  uint64_t drains_ = 0;
  NodeTime books_checked_;

  std::atomic<uint64_t> records_{0}, slices_{0}, unplaced_{0}, refused_{0}, slices_lost_{0}, waits_lost_{0}, events_lost_{0},
      processes_{0}, live_threads_{0};
};

}  // namespace stepscope
