// SPDX-License-Identifier: Apache-2.0
// PerfCounters: events counted on every CPU through perf_event_open, whoever runs there.
//   perf.<event>_total     instance "cpu3", and "" for the sum of all CPUs; clocks are perf.<event>_ns_total
// Counts begin with the first tracked run. Where more events are asked for than the PMU has counters, the kernel takes turns: the
// growth since the last tick is then scaled by the time it was counted, and the row says so (`scaled`). An event that had no turn
// at all since then has no row.
//
// Without a PMU, or without an event, the rest is counted and State() says which is missing and why. CPUs may go offline and come
// back: a CPU's count stops and goes on.
//
// Reading a remote CPU's counters interrupts it, so events are read in groups: software events of a CPU at once, hardware events
// by three, which every PMU can hold at a time beside a watchdog's.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "daemon/collector/host/metric_source.h"
#include "daemon/collector/host/perf_event_name.h"
#include "daemon/collector/host/state_box.h"

namespace stepscope {

/// The system calls, as a seam.
struct PerfCalls {
  /// Makes a counter of `event` on `cpu`: a descriptor, or -errno. `group_fd` -1: leads a group, which counts when enabled.
  std::function<int(const PerfEvent& event, int cpu, int group_fd)> open;
  /// Starts a group by its leader, when all members are there: a member of another PMU than its leader's (a clock among software
  /// events) is not counted for an unknown time when it joins a group that runs already.
  std::function<void(int fd)> enable;
  /// Reads a group by its leader {members, ns enabled, ns running, count of each}: bytes read, or -errno.
  std::function<ssize_t(int fd, std::span<uint64_t> words)> read;
};
PerfCalls KernelPerfCalls();

class PerfCounters final : public MetricSource {
 public:
  struct Options {
    std::string events = {};  ///< "a,b|c": events, each with what to take instead where this machine lacks it
    std::chrono::milliseconds period{100};
    std::string root = {};  ///< in front of /sys; empty = the machine itself
  };
  PerfCounters(Options options, PerfCalls calls);

  CollectorState State() const override { return state_.Get(); }
  std::chrono::milliseconds period() const override { return options_.period; }
  void Start() override;
  void Sample(std::span<const ProcessKey> processes, MetricSink* sink) override;
  void Stop() override;

 private:
  struct Counter {
    PerfEvent event;
    std::string metric;
  };
  struct Missing {
    std::string reason;
    int error = 0;  ///< errno of the open; 0 = the name is unknown
  };
  struct Group {
    std::vector<unique_fd> fds;    ///< the leader first
    std::vector<size_t> counters;  ///< which of counters_ each counts
    uint64_t enabled_ns = 0;       ///< as last used; they grow from 0 at open
    uint64_t running_ns = 0;
    std::vector<uint64_t> counts;
    bool is_dead = false;  ///< its CPU was offline for a moment and the kernel dropped it
  };
  struct Cpu {
    std::string instance;
    std::vector<Group> groups;   ///< none while it is offline
    std::vector<double> totals;  ///< of counters_
  };
  struct Sums {
    std::vector<double> totals;
    std::vector<bool> scaled;
    std::vector<bool> counted;  ///< by some CPU since the last tick
  };

  void ChooseEvents();
  std::optional<Counter> Choose(const std::vector<std::string>& names, int cpu);
  void FollowCpus();
  void OpenCpu(int cpu);
  void OpenCounter(int cpu, size_t counter, std::vector<Group>* groups);
  void ReadGroup(Cpu& cpu, Group& group, Sums* sums, MetricSink* sink);
  void SetState(const char* when_counting);

  const Options options_;
  const PerfCalls calls_;
  std::vector<Counter> counters_;
  std::vector<Missing> missing_;
  std::map<int, Cpu> cpus_;
  std::vector<int> online_;
  int ticks_until_retry_ = 0;
  StateBox state_;
};

}  // namespace stepscope
