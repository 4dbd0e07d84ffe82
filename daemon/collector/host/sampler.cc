// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/sampler.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <iterator>

namespace stepscope {
namespace {

constexpr std::chrono::seconds kLongestUntrack{2};
constexpr int64_t kQuietDeliveryNs = 200 * kNsPerMillisecond;  // while nobody watches

std::vector<int64_t> PeriodsOf(const std::vector<std::unique_ptr<MetricSource>>& sources) {
  std::vector<int64_t> periods;
  periods.reserve(sources.size());
  for (const auto& source : sources) periods.push_back(std::chrono::nanoseconds(source->period()).count());
  return periods;
}

std::set<RunId> Minus(const std::set<RunId>& a, const std::set<RunId>& b) {
  std::set<RunId> rest;
  std::ranges::set_difference(a, b, std::inserter(rest, rest.end()));
  return rest;
}

}  // namespace

Sampler::Sampler(std::vector<std::unique_ptr<MetricSource>> sources, DeliverySink* sink, const Clock* clock,
                 ProcessesOf processes_of, std::function<bool()> watched)
    : sources_(std::move(sources)),
      sink_(sink),
      clock_(clock),
      processes_of_(std::move(processes_of)),
      watched_(std::move(watched)),
      counted_(sources_.size()),
      schedule_(PeriodsOf(sources_)),
      rows_(sources_.size()) {
  if (sources_.empty()) return;
  thread_ = std::thread([this] { Loop(); });
  pthread_setname_np(thread_.native_handle(), "metric_sampler");
}

Sampler::~Sampler() { Stop(); }

void Sampler::Track(RunId run) {
  const std::lock_guard lock(mutex_);
  if (stopping_) return;
  wanted_.insert(run);
  changed_.notify_all();
}

void Sampler::Untrack(RunId run) {
  std::unique_lock lock(mutex_);
  if (wanted_.erase(run) == 0) return;
  changed_.notify_all();
  changed_.wait_for(lock, kLongestUntrack, [&] { return !tracked_.contains(run) || wanted_.contains(run); });
}

void Sampler::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wanted_.clear();
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

std::vector<CollectorState> Sampler::States() const {
  std::vector<CollectorState> states;
  for (size_t i = 0; i < sources_.size(); ++i) {
    CollectorState state = sources_[i]->State();
    state.numbers["samples"] = std::to_string(counted_[i].samples.load());
    state.numbers["skipped_ticks"] = std::to_string(counted_[i].skipped_ticks.load());
    state.numbers["longest_sample_us"] = std::to_string(counted_[i].longest_ns.load() / 1000);
    states.push_back(std::move(state));
  }
  return states;
}

void Sampler::Loop() {
  while (true) {
    const Runs wanted = AwaitWork(schedule_.Next());
    if (wanted != runs_) Change(wanted);
    if (Publish()) return;
    if (!runs_.empty()) Tick();
  }
}

bool Sampler::Publish() {
  const std::lock_guard lock(mutex_);
  if (tracked_ != runs_) {
    tracked_ = runs_;
    changed_.notify_all();
  }
  return stopping_ && runs_.empty();
}

Sampler::Runs Sampler::AwaitWork(NodeTime next_tick) {
  std::unique_lock lock(mutex_);
  const auto is_changed = [this] { return stopping_ || wanted_ != runs_; };
  if (runs_.empty()) {
    changed_.wait(lock, is_changed);
  } else {
    changed_.wait_for(lock, std::chrono::nanoseconds(next_tick - clock_->Node()), is_changed);
  }
  // From here on their last values are owed, also to an Untrack that comes before their first ones are delivered.
  tracked_.insert(wanted_.begin(), wanted_.end());
  return wanted_;
}

void Sampler::Change(const Runs& wanted) {
  const Runs begun = Minus(wanted, runs_);
  const Runs ended = Minus(runs_, wanted);
  const bool is_first = runs_.empty();
  if (is_first) {
    for (const auto& source : sources_) source->Start();
    schedule_.Start(clock_->Node());
  }
  if (!ended.empty()) SampleAll(ended);
  runs_ = wanted;
  if (!begun.empty()) SampleAll(begun);
  if (!runs_.empty()) return;
  for (const auto& source : sources_) source->Stop();
}

void Sampler::Tick() {
  const NodeTime now = clock_->Node();
  const std::vector<SampleSchedule::Due> due = schedule_.Take(now);
  if (due.empty()) return;
  OpenRuns(runs_);
  for (const SampleSchedule::Due& tick : due) {
    SampleOne(tick.source);
    if (tick.skipped == 0) continue;
    rows_.AddSkipped({sources_[tick.source]->State().name, tick.skipped_from, now, tick.skipped});
    counted_[tick.source].skipped_ticks += tick.skipped;
  }
  if (!MayWait(now)) Deliver();
}

bool Sampler::MayWait(NodeTime now) const { return rows_since_ && now - *rows_since_ < kQuietDeliveryNs && !watched_(); }

void Sampler::SampleAll(const Runs& runs) {
  Deliver();  // what waits is of other runs
  OpenRuns(runs);
  for (size_t i = 0; i < sources_.size(); ++i) SampleOne(i);
  Deliver();
}

void Sampler::SampleOne(size_t source) {
  Counted& counted = counted_[source];
  const NodeTime begin = clock_->Node();
  rows_.Begin(source, begin);
  sources_[source]->Sample(processes_, &rows_);
  ++counted.samples;
  counted.longest_ns = std::max(counted.longest_ns.load(), clock_->Node() - begin);
}

void Sampler::OpenRuns(const Runs& runs) {
  std::map<RunId, std::vector<ProcessKey>> open;
  std::set<ProcessKey> all;
  Runs tracked = runs_;
  tracked.insert(runs.begin(), runs.end());
  for (const RunId run : tracked) {
    std::vector<ProcessKey> processes = processes_of_(run);
    all.insert(processes.begin(), processes.end());
    if (runs.contains(run)) open.emplace(run, std::move(processes));
  }
  processes_.assign(all.begin(), all.end());
  rows_.OpenRuns(open);
  if (!rows_since_) rows_since_ = clock_->Node();
}

void Sampler::Deliver() {
  Delivery delivery;
  delivery.batches = rows_.Take();
  rows_since_.reset();
  if (!delivery.batches.empty()) sink_->Deliver(std::move(delivery));
}

}  // namespace stepscope
