// SPDX-License-Identifier: Apache-2.0
#include "analysis/lock_holder.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace stepscope {
namespace {

/// Threads that took part in handing the lock over.
std::set<uint32_t> LanesThatContend(const std::vector<const ThreadHistory*>& threads) {
  std::map<Tid, uint32_t> lane_of;
  for (const ThreadHistory* thread : threads) lane_of[thread->fact.tid] = thread->lane;
  std::set<uint32_t> lanes;
  for (const ThreadHistory* thread : threads) {
    for (const Gap& gap : thread->gaps) {
      if (gap.cause != WaitCause::kGil) continue;
      lanes.insert(thread->lane);
      const auto waker = lane_of.find(gap.waker);
      if (gap.ended_by == WakerKind::kTask && waker != lane_of.end()) lanes.insert(waker->second);
    }
  }
  return lanes;
}

/// Whether the thread goes to wait for the GIL within 200 us of running after gap `index`.
bool WaitsForGilSoonAfter(const std::vector<Gap>& gaps, size_t index) {
  int64_t ran_ns = 0;
  for (size_t next = index + 1; next < gaps.size(); ++next) {
    ran_ns += gaps[next].ran_before_ns;
    if (ran_ns >= kBurstNs) return false;
    if (gaps[next].cause == WaitCause::kGil) return true;
    if (IsAsleep(gaps[next].cause)) return false;
  }
  return false;
}

std::vector<NodeTime> AcquisitionsOf(const ThreadHistory& thread) {
  std::vector<NodeTime> times;
  const bool first_gap_is_gil = !thread.gaps.empty() && thread.gaps.front().cause == WaitCause::kGil;
  if (!first_gap_is_gil || thread.gaps.front().ran_before_ns >= kBurstNs) times.push_back(thread.turns.front().on);
  for (size_t i = 0; i < thread.gaps.size(); ++i) {
    if (IsAsleep(thread.gaps[i].cause) && !WaitsForGilSoonAfter(thread.gaps, i)) times.push_back(thread.gaps[i].on);
  }
  return times;
}

struct Change {
  enum Kind : uint8_t { kAcquires, kWaits, kWaitsNoMore };
  NodeTime at;
  Kind kind;
  uint32_t lane;
};

std::vector<Change> ChangesOf(const ThreadHistory& thread) {
  std::vector<Change> changes;
  for (NodeTime at : AcquisitionsOf(thread)) changes.push_back({at, Change::kAcquires, thread.lane});
  for (const Gap& gap : thread.gaps) {
    if (gap.cause != WaitCause::kGil) continue;
    changes.push_back({gap.off, Change::kWaits, thread.lane});
    changes.push_back({gap.on, Change::kWaitsNoMore, thread.lane});
  }
  return changes;
}

/// Acquirers that do not wait, by time of acquisition: the last one holds.
class Acquirers {
 public:
  void Apply(const Change& change) {
    std::optional<NodeTime>& acquired = acquired_[change.lane];
    bool& waits = waits_[change.lane];
    if (acquired && !waits) ready_.erase({*acquired, change.lane});
    if (change.kind == Change::kAcquires) acquired = change.at;
    if (change.kind == Change::kWaits) waits = true;
    if (change.kind == Change::kWaitsNoMore) waits = false;
    if (acquired && !waits) ready_.insert({*acquired, change.lane});
  }
  uint32_t holder() const { return ready_.empty() ? 0 : ready_.rbegin()->second; }

 private:
  std::map<uint32_t, std::optional<NodeTime>> acquired_;
  std::map<uint32_t, bool> waits_;
  std::set<std::pair<NodeTime, uint32_t>> ready_;
};

}  // namespace

LockHolders::LockHolders(const std::vector<const ThreadHistory*>& threads) {
  const std::set<uint32_t> lanes = LanesThatContend(threads);
  std::copy_if(threads.begin(), threads.end(), std::back_inserter(contenders_),
               [&](const ThreadHistory* thread) { return lanes.contains(thread->lane); });
  if (contenders_.size() > 2) BuildTimeline();
}

void LockHolders::BuildTimeline() {
  std::vector<Change> changes;
  for (const ThreadHistory* thread : contenders_) {
    const std::vector<Change> more = ChangesOf(*thread);
    changes.insert(changes.end(), more.begin(), more.end());
  }
  std::stable_sort(changes.begin(), changes.end(), [](const Change& a, const Change& b) { return a.at < b.at; });
  Acquirers acquirers;
  for (size_t i = 0; i < changes.size(); ++i) {
    acquirers.Apply(changes[i]);
    if (i + 1 < changes.size() && changes[i + 1].at == changes[i].at) continue;
    const uint32_t holder = acquirers.holder();
    if (timeline_.empty() || timeline_.back().second != holder) timeline_.emplace_back(changes[i].at, holder);
  }
}

std::vector<Hold> LockHolders::Of(uint32_t waiter, NodeTime begin, NodeTime end) const {
  if (end <= begin) return {};
  if (contenders_.size() <= 2) {
    uint32_t other = 0;
    for (const ThreadHistory* thread : contenders_) {
      if (thread->lane != waiter) other = thread->lane;
    }
    return {{begin, end, other}};
  }
  std::vector<Hold> holds;
  auto next = std::partition_point(timeline_.begin(), timeline_.end(), [&](const auto& from) { return from.first <= begin; });
  uint32_t holder = next == timeline_.begin() ? 0 : std::prev(next)->second;
  NodeTime at = begin;
  for (; next != timeline_.end() && next->first < end; ++next) {
    holds.push_back({at, next->first, holder});
    at = next->first;
    holder = next->second;
  }
  holds.push_back({at, end, holder});
  return holds;
}

HeldTime HeldTimeOf(const ThreadHistory& holder, const std::vector<Hold>& holds) {
  HeldTime held;
  int64_t longest_ns = 0;
  for (const Hold& hold : holds) {
    if (hold.holder != holder.lane) continue;
    const ThreadActivity activity = ActivityOf(holder, {hold.begin, hold.end});
    held.on_cpu_ns += activity.running_ns;
    held.runnable_ns += activity.runnable_ns;
    held.unknown_ns += activity.unknown_ns;
    for (const SleepShare& sleep : activity.sleeps) held.blocked_ns += sleep.ns;
    const SleepShare* longest = activity.LongestSleep();
    if (longest == nullptr || longest->ns <= longest_ns) continue;
    longest_ns = longest->ns;
    held.blocked_cause = longest->cause;
    held.blocked_syscall = longest->syscall;
  }
  return held;
}

}  // namespace stepscope
