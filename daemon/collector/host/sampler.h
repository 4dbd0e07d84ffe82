// SPDX-License-Identifier: Apache-2.0
// Sampler: one thread that asks every metric source at its own period while a job is tracked, and hands the values to the
// pipeline as counter rows of every tracked run.
//
//   nothing tracked: sources closed, thread asleep without a timer
//        │ Track                                   ▲ last Untrack (or Stop)
//        ▼                                         │
//   first values of the run ──► ticks of all sources, on multiples of their periods ──► last values of the run
//
// The first and last values are taken as the run begins and ends, so a run shorter than a period has them too, and what a
// counter grew by between them is the run's. A tick that comes late is taken once; those it missed are loss rows (stage
// sampler, reason tick skipped, source = lane of the source's name).
//
// Thread rule: public calls from any thread but the sampler's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "daemon/collector/host/metric_rows.h"
#include "daemon/collector/host/metric_source.h"
#include "daemon/collector/host/sample_schedule.h"
#include "daemon/pipeline/delivery.h"

namespace stepscope {

class Sampler {
 public:
  using ProcessesOf = std::function<std::vector<ProcessKey>(RunId)>;

  /// `sink` and `clock` outlive the sampler. `processes_of` and `watched` (whether rows are wanted soon) are called on the
  /// sampler thread. No source: no thread.
  Sampler(
      std::vector<std::unique_ptr<MetricSource>> sources, DeliverySink* sink, const Clock* clock, ProcessesOf processes_of,
      std::function<bool()> watched = [] { return true; });
  ~Sampler();

  /// Returns at once; the first values follow.
  void Track(RunId run);
  /// Returns when the last values of the run are delivered; a source that hangs delays it by two seconds, not for ever.
  void Untrack(RunId run);
  /// Untracks every run and joins. Idempotent; Track does nothing afterwards.
  void Stop();

  /// Of every source, with what the sampler counted of it.
  std::vector<CollectorState> States() const;

 private:
  struct Counted {
    std::atomic<int64_t> samples{0};
    std::atomic<int64_t> skipped_ticks{0};
    std::atomic<int64_t> longest_ns{0};  ///< of one Sample
  };
  using Runs = std::set<RunId>;

  void Loop();
  /// Waits for a tick, a changed wish or the end; returns the runs wanted now.
  Runs AwaitWork(NodeTime next_tick);
  /// Tells those who wait in Untrack; true when it is over.
  bool Publish();
  /// Moves from runs_ to `wanted`: first values, starts; last values, stops.
  void Change(const Runs& wanted);
  void Tick();
  void SampleAll(const Runs& runs);
  void SampleOne(size_t source);
  void OpenRuns(const Runs& runs);
  bool MayWait(NodeTime now) const;
  void Deliver();

  const std::vector<std::unique_ptr<MetricSource>> sources_;
  DeliverySink* const sink_;
  const Clock* const clock_;
  const ProcessesOf processes_of_;
  const std::function<bool()> watched_;
  std::vector<Counted> counted_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Runs wanted_;            // under mutex_
  Runs tracked_;           // under mutex_: a copy of runs_ for those who wait
  bool stopping_ = false;  // under mutex_

  Runs runs_;
  std::vector<ProcessKey> processes_;  ///< of all tracked runs
  SampleSchedule schedule_;
  MetricRows rows_;
  std::optional<NodeTime> rows_since_;  ///< of the first that was not delivered yet
  std::thread thread_;
};

}  // namespace stepscope
