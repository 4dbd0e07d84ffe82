// SPDX-License-Identifier: Apache-2.0
// Which processes OwnCollector follows: finding those that exist, learning of new ones, letting go of dead ones.
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "daemon/collector/own/own_collector.h"

namespace stepscope {
namespace {

// Within this a thread that /proc shows has also been announced by the one that made it, if that one is covered.
constexpr std::chrono::milliseconds kAnnounceTime{2};

}  // namespace

absl::Status OwnCollector::TrackNow(Pid root, RunId run) {
  const std::optional<ProcStat> stat = proc_.Stat(root.value);
  if (!stat) return absl::NotFoundError(fmt::format("process {} does not exist; nothing to track", root.value));
  if (root.value == getpid()) return absl::InvalidArgumentError("the daemon does not record itself; track another process");
  DrainRings(/*until_now=*/true);
  LetGoOfReused();
  if (const OwnProcess* process = tasks_.Process(root.value); process != nullptr && process->run != run) {
    return absl::AlreadyExistsError(
        fmt::format("process {} already belongs to run {}; end that job first", root.value, process->run.value));
  }
  runs_.insert(run);
  {
    const std::lock_guard lock(mutex_);
    state_.state = "on";
  }
  if (tasks_.Process(root.value) == nullptr) {
    ProcessKey parent{stat->parent, 0};
    if (const auto above = proc_.Stat(stat->parent.value)) parent.start_ticks = above->start_ticks;
    FollowFound({root, stat->start_ticks}, run, parent);
  }
  while (FollowUnannounced(run)) {
  }
  Deliver();
  return absl::OkStatus();
}

std::vector<ProcStat> OwnCollector::UnknownDescendants(RunId run) {
  std::vector<ProcStat> unknown;
  for (ProcStat& stat : proc_.All()) {
    const OwnProcess* parent = tasks_.Process(stat.parent.value);
    const bool is_ours = parent != nullptr && parent->run == run && stat.pid.value != getpid();
    if (is_ours && !HasEnded(stat) && tasks_.Process(stat.pid.value) == nullptr) unknown.push_back(std::move(stat));
  }
  return unknown;
}

std::vector<std::pair<int32_t, int32_t>> OwnCollector::UnknownThreads(RunId run) {
  std::vector<std::pair<int32_t, int32_t>> unknown;
  for (const int32_t tgid : tasks_.ProcessesOf(run)) {
    for (const int32_t tid : proc_.Threads(tgid)) {
      const OwnThread* known = tasks_.Thread(tid);
      if (known == nullptr || known->tgid != tgid) unknown.emplace_back(tgid, tid);
    }
  }
  return unknown;
}

// What was made before its maker was covered is in /proc by now; what is made later announces itself, so it is given the time to.
bool OwnCollector::FollowUnannounced(RunId run) {
  const std::vector<ProcStat> processes = UnknownDescendants(run);
  const auto threads = UnknownThreads(run);
  if (processes.empty() && threads.empty()) return false;
  if (rings_ != nullptr) {
    std::this_thread::sleep_for(kAnnounceTime);
    DrainRings(/*until_now=*/true);
  }
  for (const ProcStat& stat : processes) {
    const OwnProcess* parent = tasks_.Process(stat.parent.value);
    if (parent == nullptr || tasks_.Process(stat.pid.value) != nullptr) continue;
    const ProcessKey parent_key = parent->key;
    FollowFound({stat.pid, stat.start_ticks}, run, parent_key);
  }
  for (const auto& [tgid, tid] : threads) {
    OwnProcess* process = tasks_.Process(tgid);
    const OwnThread* known = tasks_.Thread(tid);
    if (process != nullptr && (known == nullptr || known->tgid != tgid)) AddFound(*process, tid);
  }
  return true;
}

void OwnCollector::FollowFound(ProcessKey key, RunId run, ProcessKey parent) {
  OwnProcess& process = Follow(key, run, parent);
  FollowFoundThreads(process);
  if (process.threads == 0) ending_.push_back({key, drains_});  // it ended while it was looked at
}

OwnProcess& OwnCollector::Follow(ProcessKey key, RunId run, ProcessKey parent) {
  OwnProcess& process = tasks_.AddProcess(key, run);
  const InnerIds inner = proc_.Inner(key.pid.value, key.pid.value);
  process.same_ids_inside = inner.tgid == 0 || inner.tgid == key.pid.value;
  if (observer_ != nullptr) observer_->OnProcess(run, key, parent);
  NameProcess(process);
  return process;
}

void OwnCollector::FollowFoundThreads(OwnProcess& process) {
  for (const int32_t tid : proc_.Threads(process.key.pid.value)) {
    const OwnThread* known = tasks_.Thread(tid);
    if (known == nullptr || known->tgid != process.key.pid.value) AddFound(process, tid);
  }
}

OwnThread& OwnCollector::AddFound(OwnProcess& process, int32_t tid) {
  OwnThread& thread = tasks_.AddThread(process, tid, ThreadTurns(clock_->Node(), /*is_new=*/false));
  Cover(thread);
  thread.sums = ReadThreadSums(options_.proc_root, thread.tgid, tid).value_or(ThreadSums{});
  Announce(thread, proc_.Comm(thread.tgid, tid).value_or(""), /*is_new=*/true);
  return thread;
}

// Refused: another user's process, or one that may not be looked into. It is followed all the same, by its sums.
void OwnCollector::Cover(OwnThread& thread) {
  if (rings_ == nullptr) return;
  const absl::Status covered = rings_->Cover(thread.run, thread.tid);
  if (covered.ok() || absl::IsNotFound(covered)) return;  // not found: it is gone
  thread.is_refused = true;
  ++threads_refused_;
  const std::lock_guard lock(mutex_);
  state_.numbers["refused"] = std::string(covered.message());
}

void OwnCollector::Announce(OwnThread& thread, std::string comm, bool is_new) {
  if (!is_new && comm == thread.comm) return;
  thread.comm = std::move(comm);
  const OwnProcess* process = tasks_.Process(thread.tgid);
  const bool same_ids = process == nullptr || process->same_ids_inside;
  const InnerIds inner = same_ids ? InnerIds{thread.tid, thread.tgid, 0} : proc_.Inner(thread.tgid, thread.tid);
  notes_.push_back({thread.run, thread.key, thread.comm, -1, inner.tid == thread.tid ? 0 : inner.tid});
  if (observer_ != nullptr) {
    observer_->OnThread({thread.run, thread.key, thread.comm, inner.tid, inner.tgid, inner.pid_namespace, is_new});
  }
}

void OwnCollector::NameProcess(const OwnProcess& process) {
  const int32_t tgid = process.key.pid.value;
  std::string command = proc_.Command(tgid);
  if (command.empty()) command = proc_.Comm(tgid, tgid).value_or("");
  if (command.empty()) return;  // already gone
  notes_.push_back({process.run, {EntityKind::kProcess, tgid, process.key.start_ticks, 0, {}}, std::move(command), -1, 0});
}

// A process that is gone before it could be looked at began when its maker said so.
int64_t OwnCollector::StartTicks(int32_t tgid, int64_t time_ns) const {
  if (const auto stat = proc_.Stat(tgid)) return stat->start_ticks;
  const int64_t suspended_ns = ReadClockNs(CLOCK_BOOTTIME) - ReadClockNs(CLOCK_MONOTONIC);
  return (time_ns + suspended_ns) / (kNsPerSecond / sysconf(_SC_CLK_TCK));
}

void OwnCollector::EndProcess(int32_t tgid) {
  OwnProcess* process = tasks_.Process(tgid);
  if (process == nullptr) return;
  const ProcessKey key = process->key;
  const RunId run = process->run;
  tasks_.RemoveProcess(tgid);
  if (observer_ != nullptr) observer_->OnProcessExit(run, key, tasks_.ProcessesOf(run).size());
}

// An id whose process ended unnoticed and that is another's by now: nothing /proc says under it is about what was followed.
void OwnCollector::LetGoOfReused() {
  for (const int32_t tgid : tasks_.Processes()) {
    const std::optional<ProcStat> stat = proc_.Stat(tgid);
    OwnProcess& process = *tasks_.Process(tgid);
    if (!stat || stat->start_ticks == process.key.start_ticks) continue;
    for (const int32_t tid : tasks_.ThreadsOf(tgid)) tasks_.RemoveThread(tid);
    rows_.AddSums(process, process.of_ended, clock_->Node());
    EndProcess(tgid);
  }
}

// A process all of whose known threads ended is let go one drain later, and only if /proc agrees: an announcement may have
// been lost.
void OwnCollector::FinishEnded() {
  std::vector<Ending> later;
  for (const Ending& ending : ending_) {
    const int32_t tgid = ending.key.pid.value;
    OwnProcess* process = tasks_.Process(tgid);
    if (process == nullptr || process->key != ending.key || process->threads > 0) continue;
    if (ending.seen_in_drain == drains_ && rings_ != nullptr) {
      later.push_back(ending);
      continue;
    }
    const std::optional<ProcStat> stat = proc_.Stat(tgid);
    const bool is_ours = stat && stat->start_ticks == ending.key.start_ticks;
    if (is_ours && !HasEnded(*stat)) {
      FollowFoundThreads(*process);
      if (process->threads == 0) later.push_back(ending);
      continue;
    }
    rows_.AddSums(*process, process->of_ended, clock_->Node());
    EndProcess(tgid);
  }
  ending_ = std::move(later);
}

absl::Status OwnCollector::UntrackNow(RunId run) {
  if (!runs_.contains(run)) return absl::OkStatus();
  DrainRings(/*until_now=*/true);
  Sweep();
  if (rings_ != nullptr) rings_->Uncover(run);
  DrainRings(/*until_now=*/true);
  for (const int32_t tgid : tasks_.ProcessesOf(run)) tasks_.RemoveProcess(tgid);
  Deliver();
  runs_.erase(run);
  if (!runs_.empty()) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  state_.state = "idle";
  return absl::OkStatus();
}

}  // namespace stepscope
