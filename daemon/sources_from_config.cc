// SPDX-License-Identifier: Apache-2.0
#include "daemon/sources_from_config.h"

#include <chrono>
#include <utility>

#include "daemon/collector/host/cgroup_pressure.h"
#include "daemon/collector/host/cpu_times.h"
#include "daemon/collector/host/cpu_topology.h"
#include "daemon/collector/host/lustre.h"
#include "daemon/collector/host/network_devices.h"
#include "daemon/collector/host/neuron_sysfs.h"
#include "daemon/collector/host/nvml.h"
#include "daemon/collector/host/perf_counters.h"
#include "daemon/collector/host/proc_node.h"
#include "daemon/collector/host/proc_process.h"
#include "daemon/collector/own/slice_ladder.h"

namespace stepscope {

std::unique_ptr<SliceSource> SliceSourceFrom(const Config& config, DeliverySink* sink, TaskObserver* observer, const Clock* clock,
                                             std::function<bool()> watched) {
  if (config.sched_mode == "off") return nullptr;
  LadderOptions options;
  options.sched.programs.ring_bytes = static_cast<uint32_t>(config.sched_ring_bytes);
  options.sched.programs.as_histogram = config.sched_mode == "histogram";
  options.sched.drain_period = std::chrono::milliseconds(config.sched_poll_ms);
  options.sched.watched = std::move(watched);
  options.own.drain_period = options.sched.drain_period;
  return StartBestLevel(options, sink, observer, clock);
}

std::vector<std::unique_ptr<MetricSource>> MetricSourcesFrom(const Config& config) {
  std::vector<std::unique_ptr<MetricSource>> sources;
  if (config.counters_enabled) {
    const std::chrono::milliseconds period(config.counters_period_ms);
    sources.push_back(std::make_unique<PerfCounters>(
        PerfCounters::Options{.events = config.counters_events, .period = period, .root = ""}, KernelPerfCalls()));
  }
  if (config.host_enabled) {
    const std::chrono::milliseconds period(config.host_period_ms);
    sources.push_back(std::make_unique<CpuTimes>(CpuTimes::Options{.root = "", .period = period}));
    sources.push_back(std::make_unique<CpuTopology>(""));
    sources.push_back(std::make_unique<CgroupPressure>(CgroupPressure::Options{.root = "", .period = period}));
    sources.push_back(std::make_unique<ProcNode>(ProcNode::Options{}));
    sources.push_back(std::make_unique<ProcProcess>(ProcProcess::Options{}));
    sources.push_back(std::make_unique<NetworkDevices>(NetworkDevices::Options{}));
    sources.push_back(std::make_unique<Lustre>(Lustre::Options{}));
    sources.push_back(std::make_unique<Nvml>(Nvml::Options{}));
    sources.push_back(std::make_unique<NeuronSysfs>(NeuronSysfs::Options{}));
  }
  return sources;
}

}  // namespace stepscope
