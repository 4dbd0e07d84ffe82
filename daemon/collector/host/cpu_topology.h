// SPDX-License-Identifier: Apache-2.0
// CpuTopology: which NUMA node each CPU belongs to, so that a thread's CPU can be compared with its accelerator's node.
//   cpu.numa_node    gauge, instance "cpu3"
// Said once when a run begins and once a minute: memory nodes come and go only with hot-plug. A kernel without NUMA says nothing.
#pragma once

#include <chrono>
#include <string>

#include "daemon/collector/host/metric_source.h"

namespace stepscope {

class CpuTopology final : public MetricSource {
 public:
  /// `root` goes in front of /sys; empty = the machine itself.
  explicit CpuTopology(std::string root) : root_(std::move(root)) {}

  CollectorState State() const override;
  std::chrono::milliseconds period() const override { return std::chrono::minutes(1); }
  void Start() override {}
  void Sample(std::span<const ProcessKey> processes, MetricSink* sink) override;
  void Stop() override {}

 private:
  const std::string root_;
};

}  // namespace stepscope
