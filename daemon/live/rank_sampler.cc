// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/rank_sampler.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>

#include "base/valid_utf8.h"
#include "daemon/live/open_turns.h"
#include "daemon/live/totals_proto.h"

namespace stepscope {
namespace {

constexpr int64_t kTickNs = kNsPerSecond;
constexpr int64_t kShortestNs = 200 * kNsPerMillisecond;
constexpr char kNoDevices[] = "no accelerator found (no NVIDIA or Neuron device files)";

}  // namespace

RankSampler::RankSampler(const Parts& parts) : parts_(parts), processes_(parts.proc), step_rate_(parts.reader) {}
RankSampler::~RankSampler() { Stop(); }

void RankSampler::Start() {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "sampler");
    Loop();
  });
}

void RankSampler::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void RankSampler::Watch(const std::weak_ptr<LiveWatcher>& watcher) {
  {
    const std::lock_guard lock(mutex_);
    watched_.push_back({watcher, true});
  }
  changed_.notify_all();
}

bool RankSampler::HasNewWatcher() const {
  return std::any_of(watched_.begin(), watched_.end(), [](const Watched& w) { return w.waiting_for_first; });
}

/// Blocks while nobody watches. False: stop.
bool RankSampler::WaitForWork() {
  std::unique_lock lock(mutex_);
  std::erase_if(watched_, [](const Watched& w) { return w.watcher.expired(); });
  changed_.wait(lock, [this] { return stopping_ || !watched_.empty(); });
  return !stopping_;
}

/// Returns early for a new watcher if asked to. False: stop.
bool RankSampler::SleepUntil(NodeTime time, bool wake_for_new_watcher) {
  std::unique_lock lock(mutex_);
  const std::chrono::nanoseconds left(std::max<int64_t>(0, time - parts_.clock->Node()));
  changed_.wait_for(lock, left, [&] { return stopping_ || (wake_for_new_watcher && HasNewWatcher()); });
  return !stopping_;
}

void RankSampler::Loop() {
  std::optional<NodeSample> before;
  while (WaitForWork()) {
    const bool stale = before && parts_.clock->Node() - before->node > 2 * kTickNs;
    if (!before || stale) before = TakeSample(*parts_.jobs, processes_, *parts_.clock);
    if (!SleepUntil(before->node + kTickNs, /*wake_for_new_watcher=*/true)) return;
    if (parts_.clock->Node() - before->node < kTickNs) {
      if (!SleepUntil(before->node + kShortestNs, /*wake_for_new_watcher=*/false)) return;
      Tell(*before, TakeSample(*parts_.jobs, processes_, *parts_.clock), Recipients::kNewOnly);
      continue;
    }
    NodeSample after = TakeSample(*parts_.jobs, processes_, *parts_.clock);
    Tell(*before, after, Recipients::kAll);
    before = std::move(after);
  }
}

void RankSampler::Tell(const NodeSample& before, const NodeSample& after, Recipients recipients) {
  std::vector<std::shared_ptr<LiveWatcher>> watchers;
  {
    const std::lock_guard lock(mutex_);
    for (Watched& watched : watched_) {
      if (recipients == Recipients::kNewOnly && !watched.waiting_for_first) continue;
      watched.waiting_for_first = false;
      if (auto watcher = watched.watcher.lock()) watchers.push_back(std::move(watcher));
    }
  }
  if (watchers.empty()) return;
  const LiveUpdate update = Describe(before, after);
  for (const auto& watcher : watchers) watcher->OnUpdate(update);
}

LiveUpdate RankSampler::Describe(const NodeSample& before, const NodeSample& after) {
  LiveUpdate update{after.node, after.wall, {}};
  std::vector<RunId> runs;
  const std::vector<OpenTurn> turns = parts_.open_turns ? parts_.open_turns() : std::vector<OpenTurn>();
  for (const auto& [run, job] : after.jobs) {
    const auto old = before.jobs.find(run);
    update.jobs.push_back(
        DescribeJob(old == before.jobs.end() ? JobSample{} : old->second, job, after, after.node - before.node, turns));
    runs.push_back(run);
  }
  step_rate_.KeepOnly(runs);
  return update;
}

LiveJob RankSampler::DescribeJob(const JobSample& before, const JobSample& after, const NodeSample& now, int64_t between_ns,
                                 const std::vector<OpenTurn>& turns) {
  LiveJob job{after.job.run, after.job.uid, {}};
  job.view.set_job(ValidUtf8(after.job.job));
  job.view.set_name(ValidUtf8(after.job.name));
  job.view.set_state(JobStateName(after.job.state));
  job.view.set_devices_note(kNoDevices);
  FillLoss(parts_.totals->Totals(job.run), job.view.mutable_loss());
  const LaneFacts lanes(*parts_.dictionary, *parts_.jobs, job.run);
  const auto& steps = step_rate_.Update(after.job, lanes, now.node);
  for (v1::RankUtilization& row : CompareSamples(before, after, between_ns, processes_.SchedStatProblem())) {
    const auto found = steps.find(row.rank() >= 0 ? row.rank() : -1 - int64_t{row.pid()});
    const RankSteps rank = found == steps.end() ? RankSteps{} : found->second;
    row.set_steps_per_second(rank.per_second);
    row.set_last_step(rank.last_number);
    row.set_last_step_ns(rank.last_dur_ns);
    FillOpenTurns(turns, after, job.run, now.node, &row);
    *job.view.add_ranks() = std::move(row);
  }
  return job;
}

}  // namespace stepscope
