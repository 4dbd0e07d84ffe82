// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/wait_summary.h"

#include <algorithm>
#include <chrono>
#include <vector>

#include "base/status.h"
#include "daemon/rpc/job_proto.h"

namespace stepscope {
namespace {

/// About 50 bytes each, twice with their gaps.
constexpr uint64_t kMostTurnsInMemory = 400'000;
constexpr int64_t kShortestWindowNs = 10 * kNsPerMillisecond;
constexpr size_t kMostWaits = 8;

/// Turns in `range`, as if those of the run were spread evenly.
uint64_t TurnsExpected(const RpcParts& parts, const JobSnapshot& job, TimeRange range) {
  const RunTotals totals = parts.totals->Totals(job.run);
  const auto slices = totals.tables.find(TableId::kSchedSlice);
  if (slices == totals.tables.end()) return 0;
  const NodeTime end = IsOver(job) ? job.end_node : parts.clock->Node();
  const double share = static_cast<double>(range.ns()) / static_cast<double>(std::max<int64_t>(1, end - job.start_node));
  return static_cast<uint64_t>(static_cast<double>(slices->second.rows) * std::min(1.0, share));
}

int64_t WindowFor(TimeRange range, uint64_t turns_expected) {
  const auto windows = static_cast<int64_t>(2 * turns_expected / kMostTurnsInMemory + 1);
  return std::max(kShortestWindowNs, range.ns() / windows + 1);
}

/// How fast rows were read so far.
struct ReadingSpeed {
  using Clock = std::chrono::steady_clock;
  uint64_t rows = 0;
  std::chrono::nanoseconds time{0};
  /// With a half more, for rows that lie less favourably.
  std::chrono::nanoseconds TimeFor(uint64_t more_rows) const {
    const double ns = static_cast<double>(time.count()) / static_cast<double>(std::max<uint64_t>(1, rows));
    return std::chrono::nanoseconds(static_cast<int64_t>(1.5 * ns * static_cast<double>(more_rows)));
  }
};

ThreadFact FactOf(const LaneFacts& lanes, uint32_t lane) {
  const LaneFact& fact = lanes.Of(lane);
  // Start ticks differ between processes with one pid; a pid has at most 22 bits.
  return {Tid{fact.tid}, fact.process.start_ticks << 22 ^ fact.process.pid.value, lanes.GilOf(fact.process)};
}

void FillPeer(const LaneFacts& lanes, uint32_t lane, v1::WaitPeer* peer) {
  const LaneFact& fact = lanes.Of(lane);
  peer->set_tid(fact.tid);
  peer->set_pid(fact.pid);
  peer->set_rank(fact.rank);
  peer->set_thread(fact.name);
  peer->set_process(fact.process_name);
}

void FillWait(const WaitKey& key, const WaitSum& sum, const LaneFacts& lanes, v1::WaitSummary* wait) {
  wait->set_cause(std::string(WaitCauseText(key.cause)));
  wait->set_syscall(SystemCallName(key.syscall, ThisMachine()));
  wait->set_ns(sum.ns);
  wait->set_count(sum.count);
  wait->set_timeouts(sum.timeouts);
  wait->set_max_ns(sum.max_ns);
  wait->set_end(std::string(ChainEndText(key.end)));
  if (key.peer_lane != 0) FillPeer(lanes, key.peer_lane, wait->mutable_peer());
  if (key.peer_tid.value != 0) {
    wait->mutable_peer()->set_tid(key.peer_tid.value);
    wait->mutable_peer()->set_rank(-1);
  }
  if (key.root_lane == 0) return;
  FillPeer(lanes, key.root_lane, wait->mutable_root());
  if (key.root_asleep) wait->mutable_root()->set_doing(SystemCallName(key.root_syscall, ThisMachine()));
}

}  // namespace

absl::StatusOr<TurnScan> ScanTurns(const RpcParts& parts, const JobSnapshot& job, const QueryRange& range, QueryBudget* budget,
                                   Holes* holes) {
  TurnScan scan(range.rows);
  ThreadTurns turns;
  const uint64_t expected = TurnsExpected(parts, job, range.shown);
  ReadingSpeed speed;
  int64_t window_ns = WindowFor(range.shown, expected);
  // Turns belong to the window they end in. Few end before the job began or after it ended: the first and last window take them.
  for (NodeTime at{range.rows.begin.ns - 1}; at < range.rows.end;) {
    // The times are owed, the waits are not: they end where the budget would not do for the times of the rest any more.
    const uint64_t rest = expected - std::min(expected, speed.rows);
    const bool follow = budget->Allows(rest, speed.TimeFor(rest));
    const NodeTime next = std::max(at, range.shown.begin) + window_ns;
    const bool is_last = !follow || next >= range.shown.end;
    const TimeRange window{at, is_last ? range.rows.end : next};
    ThreadTimes times = scan.times;
    ThreadTurns more = turns;
    const ReadingSpeed::Clock::time_point began = ReadingSpeed::Clock::now();
    STEPSCOPE_RETURN_IF_ERROR(
        ScanRows(parts, job, TableId::kSchedSlice, {window.begin, window.end + 1}, budget, holes, [&](const Batch& batch) {
          times.Add(batch, {window.begin, is_last ? NodeTime{INT64_MAX} : window.end});
          if (follow && more.turns() < kMostTurnsInMemory) more.Add(batch, window);
        }));
    if (budget->exhausted()) break;
    speed.rows += more.turns() - turns.turns();
    speed.time += ReadingSpeed::Clock::now() - began;
    const bool is_full = more.turns() >= kMostTurnsInMemory;
    if (is_full && window_ns > kShortestWindowNs) {
      window_ns = std::max(kShortestWindowNs, window_ns / 4);
      continue;
    }
    scan.times = std::move(times);
    scan.waits_cut = scan.waits_cut || is_full || !follow;
    at = window.end;
    if (!follow) break;
    more.Sort();
    // After the rows: a lane first used while they were read is in the dictionary by now.
    const LaneFacts lanes(*parts.dictionary, *parts.jobs, job.run);
    scan.waits.Add(RunHistory(more, [&](uint32_t lane) { return FactOf(lanes, lane); }, ThisMachine()));
    more.KeepLast();
    turns = std::move(more);
  }
  return scan;
}

void FillWaits(const std::map<WaitKey, WaitSum>& waits, const LaneFacts& lanes, v1::ThreadSummary* thread) {
  std::vector<std::pair<WaitKey, WaitSum>> sorted(waits.begin(), waits.end());
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.second.ns > b.second.ns; });
  std::map<WaitCause, WaitSum> others;
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (i < kMostWaits) {
      FillWait(sorted[i].first, sorted[i].second, lanes, thread->add_waits());
    } else {
      others[sorted[i].first.cause].Merge(sorted[i].second);
    }
  }
  for (const auto& [cause, sum] : others) {
    WaitKey key;
    key.cause = cause;
    v1::WaitSummary* wait = thread->add_waits();
    FillWait(key, sum, lanes, wait);
    wait->set_end("others");
  }
}

}  // namespace stepscope
