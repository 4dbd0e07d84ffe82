// SPDX-License-Identifier: Apache-2.0
// MetricSource: something on this machine that can be read now and then: perf counters, a cgroup's pressure, a NIC, a GPU's
// management library. The sampler thread asks each source at its period while a job is tracked and writes the values as rows of
// the counter table.
//
//   name       "<source>.<what>_<unit>", e.g. "cpu.steal_ns_total", "psi.memory_some_ns_total", "nvml.power_w". A value that
//              only grows ends in _total and is handed over as the kernel counts it; anything else is a gauge.
//   instance   which one of several: "cpu3", "mlx5_0/1", a device's UUID, a cgroup's path; empty where there is one.
//   process    whose it is; the default is the node's.
//
// A source that cannot work here (no PMU, no driver, no rights) is an ordinary state, not an error, and never makes values up.
// Thread rule: the sampler thread, except State(), which any thread may call.
#pragma once

#include <chrono>
#include <span>
#include <string_view>

#include "daemon/collector/collector_state.h"
#include "daemon/jobs/job_table.h"

namespace stepscope {

struct MetricValue {
  std::string_view name;
  std::string_view instance;
  ProcessKey process;  ///< {0, 0}: the node
  double value = 0;
  bool scaled = false;  ///< estimated from a multiplexed counter
};

class MetricSink {
 public:
  virtual ~MetricSink() = default;
  virtual void Add(const MetricValue& value) = 0;
};

class MetricSource {
 public:
  virtual ~MetricSource() = default;
  virtual CollectorState State() const = 0;
  virtual std::chrono::milliseconds period() const = 0;
  /// The first job is tracked: open what costs something to keep open.
  virtual void Start() = 0;
  /// `processes`: of all tracked jobs, as they are now; any of them may be gone.
  virtual void Sample(std::span<const ProcessKey> processes, MetricSink* sink) = 0;
  /// The last job is over: close it again.
  virtual void Stop() = 0;
};

}  // namespace stepscope
