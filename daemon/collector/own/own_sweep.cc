// SPDX-License-Identifier: Apache-2.0
// OwnCollector once a second: the kernel's sums of each thread, as counters per process; and what announcements missed.
#include <algorithm>

#include "daemon/collector/own/own_collector.h"

namespace stepscope {
namespace {

// One sweep may fall between a switch and the handling of its record; two in a row may not.
constexpr uint8_t kSweepsToBelieve = 2;

}  // namespace

void OwnCollector::Sweep() {
  swept_ = clock_->Node();
  LetGoOfReused();
  if (rings_ == nullptr || needs_scan_) {
    for (const RunId run : runs_) {
      while (FollowUnannounced(run)) {
      }
    }
  }
  needs_scan_ = false;
  for (const int32_t tgid : tasks_.Processes()) SweepProcess(*tasks_.Process(tgid));
}

void OwnCollector::SweepProcess(OwnProcess& process) {
  const std::vector<int32_t> listed = proc_.Threads(process.key.pid.value);
  SweepListed(process, listed);
  ThreadSums sums = SweepThreads(process, {listed.begin(), listed.end()});
  sums += process.of_ended;
  rows_.AddSums(process, sums, swept_);
}

// Threads /proc shows and nobody announced. With rings an announcement may be on its way, so they count from the second sweep on.
void OwnCollector::SweepListed(OwnProcess& process, const std::vector<int32_t>& listed) {
  std::vector<int32_t> unknown;
  for (const int32_t tid : listed) {
    const OwnThread* known = tasks_.Thread(tid);
    if (known == nullptr || known->tgid != process.key.pid.value) unknown.push_back(tid);
  }
  const std::vector<int32_t> before = std::exchange(process.found, unknown);
  for (const int32_t tid : unknown) {
    if (rings_ == nullptr || std::ranges::find(before, tid) != before.end()) AddFound(process, tid);
  }
}

ThreadSums OwnCollector::SweepThreads(OwnProcess& process, const std::set<int32_t>& listed) {
  ThreadSums total;
  const int32_t tgid = process.key.pid.value;
  for (const int32_t tid : tasks_.ThreadsOf(tgid)) {
    OwnThread& thread = *tasks_.Thread(tid);
    const auto now = ReadThreadSums(options_.proc_root, tgid, tid);
    if (now) {
      CoverIfSilent(thread, now->turns > thread.sums.turns);
      thread.sums = *now;
    }
    thread.records = 0;
    thread.missing_sweeps = listed.contains(tid) ? 0 : static_cast<uint8_t>(thread.missing_sweeps + 1);
    if (thread.missing_sweeps == 0 || (rings_ != nullptr && thread.missing_sweeps < kSweepsToBelieve)) {
      total += thread.sums;
    } else if (OwnProcess* ended = tasks_.RemoveThread(tid)) {
      ending_.push_back({ended->key, drains_});
    }
  }
  return total;
}

// A thread that runs without records was announced but not covered: it was made while its maker was being covered.
void OwnCollector::CoverIfSilent(OwnThread& thread, bool has_run) {
  if (rings_ == nullptr || thread.is_refused || thread.records > 0 || !has_run) {
    thread.silent_sweeps = 0;
    return;
  }
  if (++thread.silent_sweeps < kSweepsToBelieve) return;
  thread.silent_sweeps = 0;
  thread.turns = ThreadTurns(clock_->Node(), /*is_new=*/false);
  Cover(thread);
}

}  // namespace stepscope
