// SPDX-License-Identifier: Apache-2.0
// NeuronSysfs: counters of AWS Trainium and Inferentia chips, as the Neuron driver shows them below
// /sys/devices/virtual/neuron_device/neuron<N>/ (names: neuron_sysfs_metrics.c of the driver, 2.24 to 2.30).
//   device, instance "neuron0"
//     neuron.host_memory_<category>_bytes, neuron.{sram,mem}_ecc_*_total, neuron.power_utilization_percent (mean of a minute)
//   core, instance "neuron0/core1": the physical core, not a process's logical one
//     neuron.status_<name>_total                                            executions by their end: success, timeout, …
//     neuron.{core_host,device}_memory_bytes, neuron.device_memory_<category>_bytes
//     neuron.time_in_use_ns_total, neuron.{inference,flop,model_load,reset_req,reset_fail}_count_total (a FLOP count is 2 × MACs)
//   row group of a tensor engine (trn2), instance "neuron0/core1/row0"
//     neuron.{mm_active,wl_active,idle}_cycles_total
//
// Trap: before driver 2.30.2 the counters of executions, FLOPs and time in use change only when the process that used the core
// ends; State says so. Files are only ever opened for reading: a write clears a counter, and a write to `reset` resets the chip.
// /dev/neuron* is not touched: an open descriptor delays the clean-up after a process.
#pragma once

#include <chrono>
#include <string>

#include "daemon/collector/host/metric_source.h"
#include "daemon/collector/host/state_box.h"

namespace stepscope {

class NeuronSysfs final : public MetricSource {
 public:
  struct Options {
    std::string root;  ///< in front of /sys; empty = the machine itself
    /// About 5000 files on the largest node (128 cores), some 30 ms to read.
    std::chrono::milliseconds period{5000};
  };
  explicit NeuronSysfs(Options options);

  CollectorState State() const override { return state_.Get(); }
  std::chrono::milliseconds period() const override { return options_.period; }
  void Start() override { SetState("on"); }
  void Sample(std::span<const ProcessKey> processes, MetricSink* sink) override;
  void Stop() override { SetState("idle"); }

 private:
  void SetState(const char* when_there);

  const Options options_;
  const std::string devices_path_;
  StateBox state_;
};

}  // namespace stepscope
