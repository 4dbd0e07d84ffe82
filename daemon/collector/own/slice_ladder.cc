// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/own/slice_ladder.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

namespace stepscope {
namespace {

// Inode of the initial pid namespace in every kernel (PROC_PID_INIT_INO).
constexpr std::string_view kHostPidNamespace = "pid:[4026531836]";

constexpr char kTurnsWork[] =
    "turns of this user's threads (when, how long, on which CPU, preempted or asleep); CPU time and run-queue waits each second";
constexpr char kTurnsLack[] =
    "wakers, system calls, waits after a sleep, faults, the kernel's counts per turn, other users' processes";
constexpr char kSumsWork[] = "CPU time and run-queue waits of each process, once a second";
constexpr char kSumsLack[] = "turns of threads: when, how long, on which CPU, preempted or asleep";
constexpr char kNoneWorks[] = "what agents send; CPU time and run-queue waits of the processes this container's /proc shows";
constexpr char kNoneLacks[] = "turns of threads, and anything outside the container";

bool HasHostPids(const std::string& link) {
  char target[64] = "";
  const ssize_t size = readlink(link.c_str(), target, sizeof(target) - 1);
  // Unreadable: an old or a hidden /proc. The ids of most daemons are the host's.
  return size <= 0 || std::string_view(target, static_cast<size_t>(size)) == kHostPidNamespace;
}

CollectorState NotTheHostsPids() {
  CollectorState state;
  state.failed_step = "taking the host's process ids: this pid namespace is a container's";
  state.reason = state.failed_step;
  state.next_step = "run the daemon with the host's process ids (docker --pid=host, kubernetes hostPID: true)";
  return state;
}

/// What stands in the way of level full here, and the source if nothing does.
CollectorState TryFull(const LadderOptions& options, DeliverySink* sink, TaskObserver* observer, const Clock* clock,
                       std::unique_ptr<SliceSource>& source) {
  auto collector = std::make_unique<SchedCollector>(options.sched, sink, observer, clock);
  const absl::Status started = collector->Start();
  if (!started.ok()) return DescribeFailure(started);
  if (!HasHostPids(options.pid_namespace)) {
    collector->Stop();
    return NotTheHostsPids();
  }
  source = std::move(collector);
  return {};
}

void Describe(CollectorState& state, const char* level, const char* works, const char* lacks) {
  state.level = level;
  state.works = works;
  state.lacks = lacks;
}

/// State of the levels below full: what refused full, and what refused perf if that was refused too.
CollectorState StateBelow(const CollectorState& full, const absl::Status& perf, bool has_host_pids) {
  CollectorState state = full;
  state.reason = "full: " + full.reason;
  if (perf.ok()) {
    Describe(state, "own", kTurnsWork, kTurnsLack);
    return state;
  }
  state = DescribeFailure(perf);
  state.reason = fmt::format("{}; full: {}", state.reason, full.reason);
  if (has_host_pids)
    Describe(state, "own", kSumsWork, kSumsLack);
  else
    Describe(state, "none", kNoneWorks, kNoneLacks);
  return state;
}

}  // namespace

std::unique_ptr<SliceSource> StartBestLevel(const LadderOptions& options, DeliverySink* sink, TaskObserver* observer,
                                            const Clock* clock) {
  std::unique_ptr<SliceSource> source;
  const CollectorState full = TryFull(options, sink, observer, clock, source);
  if (source != nullptr) return source;
  auto own = std::make_unique<OwnCollector>(options.own, sink, observer, clock);
  const absl::Status perf = own->Start();
  own->Describe(StateBelow(full, perf, HasHostPids(options.pid_namespace)));
  const CollectorState state = own->State();
  spdlog::warn("scheduling: level {}: {}; {}", state.level, state.reason, state.next_step);
  return own;
}

}  // namespace stepscope
