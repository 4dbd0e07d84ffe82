// SPDX-License-Identifier: Apache-2.0
// The ladder of rights: the best way to record CPU scheduling that this machine and the daemon's rights allow, tried from the
// top.
//
//   full   eBPF: CAP_BPF and CAP_PERFMON, kernel type information, the host's process ids
//   own    perf context-switch records of the daemon's own user; where perf is refused, sums of /proc, once a second
//   none   a container that refuses perf and shows its own processes only: the same sums, of what its /proc shows
//
// Called once when the daemon starts. It never fails: State() of what it returns says which step was refused, with its errno, and
// what to change for the next level.
#pragma once

#include <memory>
#include <string>

#include "daemon/collector/own/own_collector.h"
#include "daemon/collector/sched_collector.h"
#include "daemon/collector/slice_source.h"
#include "daemon/collector/task_observer.h"
#include "daemon/pipeline/delivery.h"

namespace stepscope {

struct LadderOptions {
  SchedOptions sched;
  OwnOptions own;
  std::string pid_namespace = "/proc/self/ns/pid";
};

/// `sink`, `observer` (may be null) and `clock` outlive the source.
std::unique_ptr<SliceSource> StartBestLevel(const LadderOptions& options, DeliverySink* sink, TaskObserver* observer,
                                            const Clock* clock);

}  // namespace stepscope
