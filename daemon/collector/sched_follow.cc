// SPDX-License-Identifier: Apache-2.0
// Which processes the sched collector follows: finding those that exist (scans of /proc), learning of new ones (task events),
// letting go of dead ones, and placing each slice in the lane of its thread.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <unordered_set>

#include "base/status.h"
#include "daemon/collector/sched_collector.h"

namespace stepscope {

namespace {

/// The record as what its type says it is; nullptr when it is shorter than that.
template <typename Record>
const Record* As(std::span<const std::byte> record) {
  return record.size() >= sizeof(Record) ? reinterpret_cast<const Record*>(record.data()) : nullptr;
}

}  // namespace

void SchedCollector::Handle(std::span<const std::byte> record) {
  if (record.empty()) return;
  switch (static_cast<uint8_t>(record[0])) {
    case STEPSCOPE_SLICE:
      if (const auto* slice = As<stepscope_slice>(record)) HandleSlice(*slice);
      return;
    case STEPSCOPE_WAIT:
      if (const auto* wait = As<stepscope_wait>(record)) HandleWait(*wait);
      return;
    case STEPSCOPE_TASK_NEW:
    case STEPSCOPE_TASK_RENAME:
    case STEPSCOPE_TASK_EXEC:
      if (const auto* event = As<stepscope_task_event>(record)) HandleTaskEvent(*event);
      return;
    case STEPSCOPE_TASK_EXIT:
      if (const auto* exit = As<stepscope_task_exit>(record)) HandleExit(*exit);
      return;
    default:
      return;
  }
}

void SchedCollector::HandleSlice(const stepscope_slice& slice) {
  TrackedThread* thread = tasks_.Thread(static_cast<int32_t>(slice.tid));
  if (thread == nullptr) {
    unplaced_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  rows_.AddSlice(*thread, slice);
  slices_.fetch_add(1, std::memory_order_relaxed);
  if (rows_.rows() >= options_.rows_per_delivery) Deliver();
}

void SchedCollector::HandleWait(const stepscope_wait& wait) {
  const TrackedThread* thread = tasks_.Thread(static_cast<int32_t>(wait.tid));
  const auto tracked = runs_.find(wait.klass);
  const NodeTime now{static_cast<int64_t>(wait.time_ns)};
  if (thread == nullptr || tracked == runs_.end() || now.ns < 0) return;
  std::array<Occupant, STEPSCOPE_WAIT_PARTS> occupants;
  size_t count = 0;
  for (const stepscope_wait_part& part : wait.parts) {
    if (part.ns == 0) break;
    occupants[count++] = occupants_.Resolve(part.tid, part.tgid, thread->run, tracked->second.uid, now);
  }
  rows_.AddWait(*thread, wait, {occupants.data(), count});
}

void SchedCollector::HandleTaskEvent(const stepscope_task_event& event) {
  auto tracked = runs_.find(event.klass);
  if (tracked == runs_.end()) return;
  int32_t tgid = static_cast<int32_t>(event.tgid);
  ProcessKey key{{tgid}, static_cast<int64_t>(event.process_start_ns) / tick_ns_};
  TrackedProcess* process = Current(key);
  if (process == nullptr) {
    ProcessKey parent;
    if (TrackedProcess* known = tasks_.Process(static_cast<int32_t>(event.parent_tgid))) parent = known->key;
    process = &Follow(key, tracked->second.run, parent);
  }
  int32_t tid = static_cast<int32_t>(event.tid);
  if (event.type == STEPSCOPE_TASK_EXEC && event.old_tid != event.tid) tasks_.RemoveThread(static_cast<int32_t>(event.old_tid));
  TrackedThread* thread = tasks_.Thread(tid);
  bool is_new = thread == nullptr || thread->tgid != tgid;
  if (is_new) {
    LetGo(tid, drains_);  // the id was another thread's, whose end was lost
    thread = &tasks_.AddThread(*process, tid);
  }
  thread->vanished_in_drain = 0;
  std::string comm(event.comm, strnlen(event.comm, sizeof(event.comm)));
  InnerIds inner{static_cast<int32_t>(event.inner_tid), static_cast<int32_t>(event.inner_tgid), event.pid_ns};
  NameThread(*thread, std::move(comm), inner, is_new);
  if (event.type == STEPSCOPE_TASK_EXEC) NameProcess(*process);
}

void SchedCollector::HandleExit(const stepscope_task_exit& exit) {
  TrackedThread* thread = tasks_.Thread(static_cast<int32_t>(exit.tid));
  if (thread == nullptr || thread->tgid != static_cast<int32_t>(exit.tgid)) return;
  if (observer_ != nullptr) {
    observer_->OnThreadExit(thread->run, thread->key,
                            {exit.switches, static_cast<int64_t>(exit.exec_ns), static_cast<int64_t>(exit.run_delay_ns),
                             exit.min_faults, exit.maj_faults});
  }
  LetGo(static_cast<int32_t>(exit.tid), drains_);
}

void SchedCollector::LetGo(int32_t tid, uint64_t seen_in_drain) {
  const TrackedProcess* process = tasks_.RemoveThread(tid);
  if (process != nullptr) ending_.push_back({process->key, seen_in_drain});
}

absl::Status SchedCollector::TrackNow(Pid root, RunId run) {
  std::optional<ProcStat> stat = proc_.Stat(root.value);
  if (!stat) return absl::NotFoundError(fmt::format("process {} does not exist; nothing to track", root.value));
  if (root.value == getpid()) return absl::InvalidArgumentError("the daemon does not record itself; track another process");
  DrainRings(/*until_now=*/true);  // what an earlier owner of the id left behind is the earlier owner's
  if (TrackedProcess* process = Current({root, stat->start_ticks}); process != nullptr && process->run != run) {
    return absl::AlreadyExistsError(
        fmt::format("process {} already belongs to run {}; end that job first", root.value, process->run.value));
  }
  STEPSCOPE_ASSIGN_OR_RETURN(uint8_t klass, ClassFor(run));
  runs_[klass].uid = proc_.Uid(root.value).value_or(0);
  if (absl::Status attached = programs_->Attach(); !attached.ok()) {
    runs_.erase(klass);
    return attached;
  }
  {
    std::lock_guard lock(mutex_);
    state_.state = "on";
  }
  if (tasks_.Process(root.value) == nullptr) {
    ProcessKey parent{stat->parent, 0};
    if (std::optional<ProcStat> above = proc_.Stat(stat->parent.value)) parent.start_ticks = above->start_ticks;
    FollowFound({root, stat->start_ticks}, run, klass, parent);
  }
  // A child made before its parent was followed is in /proc by now; one made later announces itself.
  while (FollowFoundDescendants(klass, run)) {
  }
  Deliver();
  return absl::OkStatus();
}

absl::StatusOr<uint8_t> SchedCollector::ClassFor(RunId run) {
  for (const auto& [klass, tracked] : runs_) {
    if (tracked.run == run) return klass;
  }
  constexpr unsigned kClasses = STEPSCOPE_CLASS_COUNT - STEPSCOPE_CLASS_FIRST_JOB;
  for (unsigned i = 0; i < kClasses; ++i) {
    // Round robin: records of the class's previous run have long been read when its turn comes again.
    last_class_ = last_class_ + 1u < STEPSCOPE_CLASS_COUNT ? last_class_ + 1 : STEPSCOPE_CLASS_FIRST_JOB;
    if (runs_.contains(last_class_)) continue;
    STEPSCOPE_ASSIGN_OR_RETURN(auto books, programs_->Books(last_class_));
    if (runs_.empty()) books_checked_ = clock_->Node();
    runs_[last_class_] = {run, 0, books, books, {}};
    if (options_.programs.as_histogram) {
      STEPSCOPE_ASSIGN_OR_RETURN(runs_[last_class_].histogram_at_start, programs_->Histogram(last_class_));
    }
    return last_class_;
  }
  return absl::ResourceExhaustedError(fmt::format("{} jobs are tracked already; end one first", kClasses));
}

bool SchedCollector::FollowFoundDescendants(uint8_t klass, RunId run) {
  bool added = false;
  for (const ProcStat& stat : proc_.All()) {
    TrackedProcess* parent = tasks_.Process(stat.parent.value);
    if (parent == nullptr || parent->run != run || HasEnded(stat) || stat.pid.value == getpid()) continue;
    const ProcessKey parent_key = parent->key;
    const ProcessKey key{stat.pid, stat.start_ticks};
    if (Current(key) != nullptr) continue;
    FollowFound(key, run, klass, parent_key);
    added = true;
  }
  return added;
}

// The class comes before the scan: a thread made after it announces itself, one made before it is in /proc. And the threads'
// states come before the class, so that none of them is found without one.
void SchedCollector::FollowFound(ProcessKey key, RunId run, uint8_t klass, ProcessKey parent) {
  PrepareThreads(key.pid.value);
  programs_->SetClass(key.pid.value, klass);
  TrackedProcess& process = Follow(key, run, parent);
  FollowFoundThreads(process);
  if (process.threads == 0) ending_.push_back({key, drains_});  // it ended while it was looked at
}

// The process as it is now; an earlier owner of its id, whose end was not noticed, is let go.
TrackedProcess* SchedCollector::Current(ProcessKey key) {
  TrackedProcess* process = tasks_.Process(key.pid.value);
  if (process == nullptr || process->key == key) return process;
  EndProcess(key.pid.value);
  return nullptr;
}

// The kernel side has the class already when it announces a process; setting it again here could hit a reused id.
TrackedProcess& SchedCollector::Follow(ProcessKey key, RunId run, ProcessKey parent) {
  TrackedProcess& process = tasks_.AddProcess(key, run);
  if (observer_ != nullptr) observer_->OnProcess(run, key, parent);
  NameProcess(process);
  return process;
}

void SchedCollector::FollowFoundThreads(TrackedProcess& process) {
  int32_t tgid = process.key.pid.value;
  PrepareThreads(tgid);
  for (int32_t tid : proc_.Threads(tgid)) {
    if (TrackedThread* known = tasks_.Thread(tid); known != nullptr && known->tgid == tgid) continue;
    TrackedThread& thread = tasks_.AddThread(process, tid);
    NameThread(thread, proc_.Comm(tgid, tid).value_or(""), proc_.Inner(tgid, tid), /*is_new=*/true);
  }
}

// Where that fails, the turns of the threads left out are counted as lost, and CheckBooks tries again.
void SchedCollector::PrepareThreads(int32_t tgid) { programs_->PrepareThreads(tgid).IgnoreError(); }

void SchedCollector::NameThread(TrackedThread& thread, std::string comm, const InnerIds& inner, bool is_new) {
  if (!is_new && comm == thread.comm) return;
  thread.comm = std::move(comm);
  EntityNote note{thread.run, thread.key, thread.comm, -1, inner.tid == thread.tid ? 0 : inner.tid};
  notes_.push_back(std::move(note));
  if (observer_ != nullptr) {
    observer_->OnThread({thread.run, thread.key, thread.comm, inner.tid, inner.tgid, inner.pid_namespace, is_new});
  }
}

void SchedCollector::NameProcess(const TrackedProcess& process) {
  int32_t tgid = process.key.pid.value;
  std::string command = proc_.Command(tgid);
  if (command.empty()) command = proc_.Comm(tgid, tgid).value_or("");
  if (command.empty()) return;  // already gone
  EntityKey key{EntityKind::kProcess, tgid, process.key.start_ticks, 0, {}};
  notes_.push_back({process.run, key, std::move(command), -1, 0});
}

void SchedCollector::EndProcess(int32_t tgid) {
  TrackedProcess* process = tasks_.Process(tgid);
  if (process == nullptr) return;
  ProcessKey key = process->key;
  RunId run = process->run;
  tasks_.RemoveProcess(tgid);
  if (observer_ != nullptr) observer_->OnProcessExit(run, key, tasks_.ProcessesOf(run).size());
}

// A process all of whose known threads ended is let go one drain later, and only if /proc agrees: an announcement may have
// been lost, and its threads would be lost with the class.
void SchedCollector::FinishEnded() {
  LetGoOfVanished();
  std::vector<Ending> later;
  for (const Ending& ending : ending_) {
    if (ending.seen_in_drain == drains_) {
      later.push_back(ending);
      continue;
    }
    int32_t tgid = ending.key.pid.value;
    TrackedProcess* process = tasks_.Process(tgid);
    if (process == nullptr || process->key != ending.key || process->threads > 0) continue;
    std::optional<ProcStat> stat = proc_.Stat(tgid);
    bool is_ours = stat && stat->start_ticks == ending.key.start_ticks;
    if (is_ours && !HasEnded(*stat)) {
      FollowFoundThreads(*process);
      if (process->threads == 0) later.push_back(ending);
      continue;
    }
    if (!stat || is_ours) programs_->SetClass(tgid, STEPSCOPE_CLASS_OUT);
    EndProcess(tgid);
  }
  ending_ = std::move(later);
}

// A thread that /proc no longer lists may have its last turn in a ring, or before it: it is let go one drain later.
void SchedCollector::LetGoOfVanished() {
  std::vector<int32_t> later;
  for (const int32_t tid : vanished_) {
    const TrackedThread* thread = tasks_.Thread(tid);
    if (thread == nullptr || thread->vanished_in_drain == 0) continue;  // its end was read, and the id is another's
    if (thread->vanished_in_drain == drains_)
      later.push_back(tid);
    else
      LetGo(tid, thread->vanished_in_drain);
  }
  vanished_ = std::move(later);
}

// After lost task events: what the table holds and /proc does not is over, what /proc holds and the table does not is added. An
// id may be another's by now.
void SchedCollector::SweepAgainstProc() {
  for (int32_t tgid : tasks_.Processes()) {
    const std::optional<ProcStat> stat = proc_.Stat(tgid);
    TrackedProcess* process = stat ? Current({stat->pid, stat->start_ticks}) : tasks_.Process(tgid);
    if (process == nullptr) continue;
    const std::vector<int32_t> alive = proc_.Threads(tgid);
    const std::unordered_set<int32_t> is_alive(alive.begin(), alive.end());
    for (int32_t tid : tasks_.ThreadsOf(tgid)) {
      TrackedThread& thread = *tasks_.Thread(tid);
      if (is_alive.contains(tid) || thread.vanished_in_drain != 0) continue;
      thread.vanished_in_drain = drains_;
      vanished_.push_back(tid);
    }
    FollowFoundThreads(*process);
    if (process->threads == 0) ending_.push_back({process->key, drains_});
  }
  for (auto& [klass, tracked] : runs_) {
    while (FollowFoundDescendants(klass, tracked.run)) {
    }
  }
}

std::vector<OpenTurn> SchedCollector::OpenTurns() {
  std::vector<OpenTurn> turns;
  Call([&]() -> absl::Status {
    if (!programs_->attached()) return absl::OkStatus();
    STEPSCOPE_ASSIGN_OR_RETURN(const auto open, programs_->OpenTurns());
    for (const stepscope_open_turn& turn : open) {
      const TrackedThread* thread = tasks_.Thread(static_cast<int32_t>(turn.tid));
      if (thread == nullptr) continue;
      OpenTurn& out = turns.emplace_back();
      out.run = thread->run;
      out.thread = thread->key;
      out.comm = thread->comm;
      out.cpu = turn.cpu;
      out.since = NodeTime{static_cast<int64_t>(turn.since_ns)};
      if (turn.is_on_cpu) {
        out.doing = OpenTurn::Doing::kRunning;
      } else if (turn.runnable_since_ns != 0) {
        out.doing = OpenTurn::Doing::kRunnable;
        out.since = NodeTime{static_cast<int64_t>(turn.runnable_since_ns)};
      } else {
        out.state = static_cast<SliceState>(turn.state);
        out.syscall = turn.syscall;
        out.arg0 = static_cast<int64_t>(turn.arg0);
      }
    }
    return absl::OkStatus();
  }).IgnoreError();  // live only; the state says why nothing is recorded
  return turns;
}

absl::Status SchedCollector::UntrackNow(RunId run) {
  auto tracked = runs_.begin();
  while (tracked != runs_.end() && tracked->second.run != run) ++tracked;
  if (tracked == runs_.end()) return absl::OkStatus();
  const uint8_t klass = tracked->first;
  const auto is_followed = [&](int32_t tgid) { return programs_->ClassOf(tgid) == klass; };  // else the id is another's by now
  // Children made between two passes inherit the class and are in the ring by then.
  while (!tasks_.ProcessesOf(run).empty()) {
    for (int32_t tgid : tasks_.ProcessesOf(run)) {
      if (is_followed(tgid)) programs_->SetClass(tgid, STEPSCOPE_CLASS_OUT);
    }
    DrainRings(/*until_now=*/true);
    for (int32_t tgid : tasks_.ProcessesOf(run)) {
      if (!is_followed(tgid)) tasks_.RemoveProcess(tgid);
    }
  }
  // Processes nobody announced, for want of room in a ring: alive or not, their ids may be handed to strangers, and the class to
  // another run. Their children inherit it until it is gone.
  while (programs_->ClearClass(klass)) {
  }
  CheckBooks();
  Deliver();
  runs_.erase(tracked);
  if (!runs_.empty()) return absl::OkStatus();
  programs_->Detach();
  std::lock_guard lock(mutex_);
  state_.state = "idle";
  return absl::OkStatus();
}

}  // namespace stepscope
