// SPDX-License-Identifier: Apache-2.0
// OwnCollector's thread: what it waits for, and what perf records mean. Who is followed: own_follow.cc.
#include "daemon/collector/own/own_collector.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>

#include "base/status.h"

namespace stepscope {
namespace {

// A record is in its ring within microseconds of its time; with several rings, younger ones wait for the next drain.
constexpr int64_t kSettleNs = 1 * kNsPerMillisecond;
// What an unprivileged user may lock per CPU (kernel.perf_event_mlock_kb, 512 KiB and a page); all rings together stay below 16
// MiB.
constexpr size_t kMostRingBytes = 512 << 10;
constexpr size_t kAllRingBytes = 16 << 20;

size_t RingPages() {
  const size_t cpus = static_cast<size_t>(std::max(1L, sysconf(_SC_NPROCESSORS_CONF)));
  const size_t bytes = std::min(kMostRingBytes, kAllRingBytes / cpus);
  return std::bit_floor(std::max<size_t>(1, bytes / static_cast<size_t>(getpagesize())));
}

// A thread found running takes a descriptor per CPU, which the usual soft limit of 1024 does not hold.
void RaiseDescriptorLimit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace

OwnCollector::OwnCollector(OwnOptions options, DeliverySink* sink, TaskObserver* observer, const Clock* clock)
    : options_(std::move(options)), sink_(sink), observer_(observer), clock_(clock), proc_(options_.proc_root) {
  state_.name = "sched";
  state_.level = "own";
  state_.state = "off";
}

OwnCollector::~OwnCollector() { Stop(); }

absl::Status OwnCollector::Start() {
  STEPSCOPE_RETURN_IF_ERROR(thread_.Open());
  absl::Status perf = absl::OkStatus();
  if (options_.use_perf) {
    auto rings = SwitchRings::Open(options_.ring_pages != 0 ? options_.ring_pages : RingPages());
    perf = rings.status();
    if (rings.ok()) rings_ = *std::move(rings);
    if (perf.ok()) RaiseDescriptorLimit();
  }
  {
    const std::lock_guard lock(mutex_);
    state_.state = "idle";
  }
  drained_ = swept_ = clock_->Node();
  thread_.Start([this] { Wait(); },
                [this] {
                  if (!runs_.empty()) Tick();
                });
  return perf;
}

void OwnCollector::Describe(const CollectorState& level) {
  const std::lock_guard lock(mutex_);
  const std::string state = state_.state;
  state_ = level;
  state_.name = "sched";
  state_.state = state;
}

void OwnCollector::Stop() {
  thread_.Stop([this] {
    DrainRings(/*until_now=*/true);
    Deliver();
    const std::lock_guard lock(mutex_);
    state_.state = "off";
  });
}

absl::Status OwnCollector::Track(Pid root, RunId run) {
  return thread_.Call([this, root, run] { return TrackNow(root, run); });
}

absl::Status OwnCollector::Untrack(RunId run) {
  if (!thread_.IsCurrent()) {
    return thread_.Call([this, run] { return UntrackNow(run); });
  }
  thread_.Post([this, run] { UntrackNow(run).IgnoreError(); });
  return absl::OkStatus();
}

absl::Status OwnCollector::Flush() {
  return thread_.Call([this] {
    DrainRings(/*until_now=*/true);
    FinishEnded();
    if (!runs_.empty()) Sweep();
    Deliver();
    return absl::OkStatus();
  });
}

CollectorState OwnCollector::State() const {
  CollectorState state;
  {
    const std::lock_guard lock(mutex_);
    state = state_;
  }
  const auto add = [&state](const char* name, uint64_t value) { state.numbers[name] = std::to_string(value); };
  add("processes", processes_);
  add("threads", live_threads_);
  if (rings_ == nullptr) return state;
  add("records", records_);
  add("slices", slices_);
  add("records_lost", records_lost_);
  add("threads_refused", threads_refused_);
  add("unplaced", unplaced_);
  add("malformed", malformed_);
  return state;
}

void OwnCollector::Wait() {
  std::vector<pollfd> waiting{{thread_.wake_fd(), POLLIN, 0}};
  auto period = std::chrono::milliseconds(-1);
  if (!runs_.empty()) {
    period = rings_ != nullptr ? options_.drain_period : options_.sweep_period;
    if (rings_ != nullptr) {
      for (const int fd : rings_->wake_fds()) waiting.push_back({fd, POLLIN, 0});
    }
  }
  poll(waiting.data(), waiting.size(), static_cast<int>(period.count()));
}

void OwnCollector::Tick() {
  DrainRings(/*until_now=*/false);
  FinishEnded();
  const int64_t period_ns = std::chrono::nanoseconds(options_.sweep_period).count();
  if (clock_->Node() - swept_ >= period_ns) Sweep();
  Deliver();
}

void OwnCollector::DrainRings(bool until_now) {
  if (rings_ == nullptr) return;
  const NodeTime now = clock_->Node();
  ++drains_;
  rings_->Read([this](SwitchRecord record) {
    ++records_;
    held_.push_back(std::move(record));
  });
  malformed_ = rings_->malformed();
  // Stable: records of one CPU and one time keep their order.
  std::stable_sort(held_.begin(), held_.end(), [](const auto& a, const auto& b) { return a.time_ns < b.time_ns; });
  auto end = held_.end();
  if (!until_now) {
    end = std::find_if(held_.begin(), held_.end(), [&](const SwitchRecord& r) { return r.time_ns >= now.ns - kSettleNs; });
  }
  for (auto it = held_.begin(); it != end; ++it) Handle(*it);
  held_.erase(held_.begin(), end);
  drained_ = now;
}

void OwnCollector::Deliver() {
  processes_ = tasks_.process_count();
  live_threads_ = tasks_.thread_count();
  const size_t rows = rows_.rows();
  if (rows == 0 && notes_.empty()) return;
  Delivery delivery;
  delivery.batches = rows_.Take();
  delivery.notes = std::move(notes_);
  notes_.clear();
  if (!sink_->Deliver(std::move(delivery))) refused_rows_ += rows;
}

void OwnCollector::Handle(const SwitchRecord& record) {
  switch (record.kind) {
    case SwitchKind::kIn:
    case SwitchKind::kOutBlocked:
    case SwitchKind::kOutRunnable:
      return HandleSwitch(record);
    case SwitchKind::kFork:
      return HandleFork(record);
    case SwitchKind::kExit:
      return HandleExit(record);
    case SwitchKind::kComm:
    case SwitchKind::kExec:
      return HandleComm(record);
    case SwitchKind::kLost:
      return HandleLost(record);
  }
}

// A thread whose announcement was lost is known by its first switch, if its process is.
OwnThread* OwnCollector::ThreadOf(const SwitchRecord& record) {
  OwnThread* thread = tasks_.Thread(record.tid);
  if (thread != nullptr && thread->tgid == record.tgid) return thread;
  OwnProcess* process = tasks_.Process(record.tgid);
  if (process == nullptr) return nullptr;
  OwnThread& found = tasks_.AddThread(*process, record.tid, ThreadTurns({record.time_ns}, /*is_new=*/false));
  found.turns.Lost(record.cpu);
  Announce(found, proc_.Comm(record.tgid, record.tid).value_or(""), /*is_new=*/true);
  return &found;
}

void OwnCollector::HandleSwitch(const SwitchRecord& record) {
  OwnThread* thread = ThreadOf(record);
  if (thread == nullptr) {
    ++unplaced_;
    return;
  }
  ++thread->records;
  const NodeTime time{record.time_ns};
  if (record.kind == SwitchKind::kIn) return thread->turns.In(time, record.cpu);
  const auto turn = thread->turns.Out(time, record.cpu, record.kind == SwitchKind::kOutRunnable);
  if (!turn) return;
  rows_.AddTurn(*thread, *turn);
  ++slices_;
  if (rows_.rows() >= options_.rows_per_delivery) Deliver();
}

void OwnCollector::HandleFork(const SwitchRecord& record) {
  OwnProcess* parent = tasks_.Process(record.parent_tgid);
  const OwnThread* maker = tasks_.Thread(record.parent_tid);
  if (parent == nullptr || record.tgid == getpid()) return;
  const std::string comm = maker != nullptr ? maker->comm : "";
  OwnProcess* process = parent;
  if (record.tgid != record.parent_tgid) {
    const RunId run = parent->run;
    const ProcessKey parent_key = parent->key;
    const bool same_ids = parent->same_ids_inside;
    EndProcess(record.tgid);  // the id was reused before its end was noticed
    process = &Follow({{record.tgid}, StartTicks(record.tgid, record.time_ns)}, run, parent_key);
    process->same_ids_inside = process->same_ids_inside && same_ids;
  }
  OwnThread& thread = tasks_.AddThread(*process, record.tid, ThreadTurns({record.time_ns}, /*is_new=*/true));
  Announce(thread, comm, /*is_new=*/true);
}

void OwnCollector::HandleExit(const SwitchRecord& record) {
  OwnThread* thread = tasks_.Thread(record.tid);
  if (thread == nullptr || thread->tgid != record.tgid) return;
  if (const auto turn = thread->turns.Exit({record.time_ns}, record.cpu)) {
    rows_.AddTurn(*thread, *turn);
    ++slices_;
  }
  if (OwnProcess* process = tasks_.RemoveThread(record.tid)) ending_.push_back({process->key, drains_});
}

// A thread that is not the leader and calls exec goes on under the leader's id.
void OwnCollector::TakeOverTurns(const SwitchRecord& exec) {
  OwnProcess* process = tasks_.Process(exec.tgid);
  if (process == nullptr || tasks_.Thread(exec.tgid) != nullptr) return;
  for (const int32_t tid : tasks_.ThreadsOf(exec.tgid)) {
    const OwnThread caller = *tasks_.Thread(tid);
    if (!caller.turns.IsOn(exec.cpu)) continue;
    OwnThread& leader = tasks_.AddThread(*process, exec.tgid, caller.turns);
    leader.sums = caller.sums;
    tasks_.Thread(tid)->sums = {};
    tasks_.RemoveThread(tid);
    return;
  }
}

void OwnCollector::HandleComm(const SwitchRecord& record) {
  if (record.kind == SwitchKind::kExec) TakeOverTurns(record);
  OwnThread* thread = ThreadOf(record);
  if (thread == nullptr) return;
  Announce(*thread, record.comm, /*is_new=*/false);
  if (record.kind != SwitchKind::kExec) return;
  if (OwnProcess* process = tasks_.Process(record.tgid)) NameProcess(*process);
}

// The kernel does not say whose records were lost, so the count stands in every run as the most turns that can be missing.
void OwnCollector::HandleLost(const SwitchRecord& record) {
  records_lost_ += record.lost;
  const NodeTime until{std::max(record.time_ns, drained_.ns)};
  const auto lost = static_cast<int64_t>(record.lost);
  for (const RunId run : runs_) {
    rows_.AddLoss({run, record.cpu, drained_, until, TableId::kSchedSlice, lost, lost * kSwitchRecordBytes});
  }
  for (auto& [tid, thread] : tasks_.threads()) {
    thread.turns.Lost(record.cpu);
    thread.silent_sweeps = 0;
  }
  needs_scan_ = true;
}

}  // namespace stepscope
