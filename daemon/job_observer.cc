// SPDX-License-Identifier: Apache-2.0
#include "daemon/job_observer.h"

namespace stepscope {
namespace {

ProcessKey ProcessOf(const EntityKey& thread) { return {Pid{static_cast<int32_t>(thread.a)}, thread.b}; }

}  // namespace

void JobObserver::NoteRanks() {
  for (const JobSnapshot& job : jobs_->List()) {
    if (job.state != JobState::kRunning && job.state != JobState::kQuiet) continue;
    for (const ProcessKey& process : jobs_->Processes(job.run)) NoteRank(job.run, process);
  }
}

void JobObserver::OnThread(const ThreadFacts& thread) {
  const auto host_tid = static_cast<int32_t>(thread.key.c);
  if (thread.inner_tid > 0 && thread.inner_tid != host_tid) tids_->Began(ProcessOf(thread.key), thread.inner_tid, host_tid);
  jobs_->OnThread(thread.run, thread.is_new ? 1 : 0);
}

void JobObserver::OnThreadExit(RunId, const EntityKey& thread, const ThreadTotals&) {
  tids_->Ended(ProcessOf(thread), static_cast<int32_t>(thread.c));
}

void JobObserver::OnProcessExit(RunId run, ProcessKey process, size_t) {
  tids_->Ended(process);
  NoteRank(run, process);
  jobs_->OnProcessExit(run, process);
  const std::lock_guard lock(mu_);
  noted_.erase({run, process});
}

void JobObserver::NoteRank(RunId run, ProcessKey process) {
  const int32_t rank = jobs_->RankOf(run, process);
  if (rank < 0) return;
  {
    const std::lock_guard lock(mu_);
    const auto [it, inserted] = noted_.try_emplace({run, process}, rank);
    if (!inserted && it->second == rank) return;
    it->second = rank;
  }
  Delivery delivery;
  delivery.notes.push_back({run, {EntityKind::kProcess, process.pid.value, process.start_ticks, 0, ""}, "", rank, 0});
  sink_->Deliver(std::move(delivery));
}

}  // namespace stepscope
