// SPDX-License-Identifier: Apache-2.0
// ProcProcess: CPU time, memory and I/O of tracked processes, from /proc/PID/{stat,status,io}.
//   process.cpu_ns_total (all threads, in steps of a clock tick), process.threads, process.rss_bytes, process.swap_bytes
//   process.main_thread_{voluntary,involuntary}_switches_total: the kernel counts them per thread and says the main thread's here
//   process.{rchar,wchar}_bytes_total: what read() and write() moved, from wherever;  process.{read,written}_bytes_total: disk
//
// /proc/PID/io needs the right to trace the process (ptrace(2)): without it the I/O values are absent and State says so. The
// three files are opened through one directory, so that they are of one process even when its pid is given away in between.
//
// Bounded: at most 1000 processes a time, in turn. With more, each is read every second, third … time and State says so.
#pragma once

#include <chrono>
#include <string>

#include "daemon/collector/host/metric_source.h"
#include "daemon/collector/host/state_box.h"

namespace stepscope {

class ProcProcess final : public MetricSource {
 public:
  struct Options {
    std::string root;  ///< in front of /proc; empty = the machine itself
    std::chrono::milliseconds period{1000};
  };
  explicit ProcProcess(Options options);

  CollectorState State() const override { return state_.Get(); }
  std::chrono::milliseconds period() const override { return options_.period; }
  void Start() override { turn_ = 0; }
  void Sample(std::span<const ProcessKey> processes, MetricSink* sink) override;
  void Stop() override { state_.Set({"process", "full", "idle", "", "", {}}); }

 private:
  /// What came of the processes of one Sample.
  struct Outcome {
    size_t read = 0;
    size_t gone = 0;
    size_t io_denied = 0;
  };
  void AddProcess(ProcessKey process, Outcome* outcome, MetricSink* sink) const;
  void SetState(size_t tracked, const Outcome& outcome);

  const Options options_;
  const double ns_per_tick_;
  size_t turn_ = 0;  ///< where the next sample begins
  StateBox state_;
};

}  // namespace stepscope
