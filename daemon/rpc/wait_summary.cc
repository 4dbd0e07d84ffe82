// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/wait_summary.h"

#include <algorithm>
#include <vector>

#include "base/status.h"

namespace stepscope {
namespace {

/// About 50 bytes each, twice with their gaps.
constexpr uint64_t kMostTurnsInMemory = 400'000;
constexpr int64_t kShortestWindowNs = 10 * kNsPerMillisecond;
constexpr size_t kMostWaits = 8;

int64_t WindowFor(TimeRange range, uint64_t turns_expected) {
  const auto windows = static_cast<int64_t>(2 * turns_expected / kMostTurnsInMemory + 1);
  return std::max(kShortestWindowNs, range.ns() / windows + 1);
}

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

absl::StatusOr<WaitScan> ScanWaits(const RpcParts& parts, const JobSnapshot& job, const LaneFacts& lanes, TimeRange range,
                                   uint64_t turns_expected, QueryBudget* budget, Holes* holes) {
  WaitScan scan{WaitTotals(range)};
  ThreadTurns turns;
  int64_t window_ns = WindowFor(range, turns_expected);
  // Turns belong to the window they end in; one that ends at range.end is the last.
  for (NodeTime at{range.begin.ns - 1}; at < range.end;) {
    const NodeTime end = std::min(at + window_ns, range.end);
    ThreadTurns more = turns;
    STEPSCOPE_RETURN_IF_ERROR(ScanRows(parts, job, TableId::kSchedSlice, {at, end + 1}, budget, holes, [&](const Batch& batch) {
      if (more.turns() < kMostTurnsInMemory) more.Add(batch, {at, end});
    }));
    if (budget->exhausted()) {
      scan.cut = true;
      break;
    }
    if (more.turns() >= kMostTurnsInMemory && window_ns > kShortestWindowNs) {
      window_ns = std::max(kShortestWindowNs, window_ns / 4);
      continue;
    }
    scan.cut = scan.cut || more.turns() >= kMostTurnsInMemory;
    more.Sort();
    scan.totals.Add(RunHistory(more, [&](uint32_t lane) { return FactOf(lanes, lane); }, ThisMachine()));
    more.KeepLast();
    turns = std::move(more);
    at = end;
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
