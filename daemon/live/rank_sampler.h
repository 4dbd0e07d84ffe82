// SPDX-License-Identifier: Apache-2.0
// RankSampler: is each rank busy right now? While somebody watches, a thread ("sampler") reads /proc once a second and tells
// them; otherwise it sleeps on a condition variable.
//
//   Watch ──► first update at once (two readings at least 200 ms apart) ──► then one a second
//
// Thread rule: all methods from any thread. Watchers are called on the sampler thread, without a lock held.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "daemon/collector/open_turn.h"
#include "daemon/live/job_sample.h"
#include "daemon/live/step_rate.h"
#include "daemon/pipeline/run_totals.h"

namespace stepscope {

struct LiveJob {
  RunId run;
  uint32_t uid = 0;
  v1::JobUtilization view;
};
struct LiveUpdate {
  NodeTime node;
  WallTime wall;
  std::vector<LiveJob> jobs;  ///< running and quiet ones, of every uid: whoever shows them filters
};

class LiveWatcher {
 public:
  virtual ~LiveWatcher() = default;
  virtual void OnUpdate(const LiveUpdate& update) = 0;
};

class RankSampler {
 public:
  struct Parts {
    const JobTable* jobs;
    const TableReader* reader;
    const RunDictionary* dictionary;
    const TotalsSource* totals;
    const Clock* clock;
    std::function<std::vector<OpenTurn>()> open_turns;  ///< asked once per update that somebody watches
    std::string proc = "/proc";
  };
  explicit RankSampler(const Parts& parts);
  ~RankSampler();
  void Start();
  void Stop();

  /// The watcher is told until its last owner drops it.
  void Watch(const std::weak_ptr<LiveWatcher>& watcher);

 private:
  struct Watched {
    std::weak_ptr<LiveWatcher> watcher;
    bool waiting_for_first = true;
  };
  enum class Recipients { kAll, kNewOnly };

  void Loop();
  bool WaitForWork();
  bool SleepUntil(NodeTime time, bool wake_for_new_watcher);
  bool HasNewWatcher() const;
  LiveUpdate Describe(const NodeSample& before, const NodeSample& after);
  LiveJob DescribeJob(const JobSample& before, const JobSample& after, const NodeSample& now, int64_t between_ns,
                      const std::vector<OpenTurn>& turns);
  void Tell(const NodeSample& before, const NodeSample& after, Recipients recipients);

  const Parts parts_;
  const ProcessClock processes_;
  StepRate step_rate_;  // sampler thread only

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Watched> watched_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace stepscope
