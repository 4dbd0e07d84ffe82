// SPDX-License-Identifier: Apache-2.0
// Lustre: what this node's Lustre clients did, from llite/<FILE SYSTEM>-<ID>/stats in /sys/kernel/debug/lustre (2.12 and newer)
// or /proc/fs/lustre (older). A line is
//   read_bytes  4131 samples [bytes] 4096 1048576 4299161600      name, count, unit, and, with a unit, least, most and sum
// and becomes lustre.<name>_calls_total (count) and, by its unit, lustre.<name>_total (bytes, lustre.read_bytes_total) or
// lustre.<name>_ns_total (usec). Instance: the directory's name, "fsx-ffff8881…".
//
// debugfs is root's: as another user, and on a kernel in lockdown, there are no values, and State says so.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "daemon/collector/host/metric_source.h"
#include "daemon/collector/host/state_box.h"

namespace stepscope {

class Lustre final : public MetricSource {
 public:
  struct Options {
    std::string root;  ///< in front of /proc and /sys; empty = the machine itself
    std::chrono::milliseconds period{1000};
  };
  explicit Lustre(Options options);

  CollectorState State() const override { return state_.Get(); }
  std::chrono::milliseconds period() const override { return options_.period; }
  void Start() override { SetState("on"); }
  void Sample(std::span<const ProcessKey> processes, MetricSink* sink) override;
  void Stop() override { SetState("idle"); }

 private:
  void SetState(const char* when_there);

  const Options options_;
  StateBox state_;
};

}  // namespace stepscope
