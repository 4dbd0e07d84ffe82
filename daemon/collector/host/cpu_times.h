// SPDX-License-Identifier: Apache-2.0
// CpuTimes: how the CPUs of the node spent their time, per CPU and summed, as the kernel books it in /proc/stat (grain: one
// USER_HZ tick, 10 ms). Steal is time the hypervisor gave to somebody else.
//   cpu.{user,system,idle,iowait,irq,softirq,steal}_ns_total    instance: "" (sum of all) or "cpu3"
//   cpu.runnable_tasks, cpu.blocked_tasks (gauges), cpu.context_switches_total, cpu.forks_total      of the node
// A CPU that is offline has no values meanwhile.
#pragma once

#include <chrono>
#include <string>

#include "daemon/collector/host/metric_source.h"
#include "daemon/collector/host/state_box.h"

namespace stepscope {

class CpuTimes final : public MetricSource {
 public:
  struct Options {
    std::string root;  ///< in front of /proc; empty = the machine itself
    std::chrono::milliseconds period{500};
  };
  explicit CpuTimes(Options options);

  CollectorState State() const override { return state_.Get(); }
  std::chrono::milliseconds period() const override { return options_.period; }
  void Start() override { SetState("on"); }
  void Sample(std::span<const ProcessKey> processes, MetricSink* sink) override;
  void Stop() override { SetState("idle"); }

 private:
  void SetState(const char* when_readable);

  const Options options_;
  const double ns_per_tick_;
  StateBox state_;
};

}  // namespace stepscope
