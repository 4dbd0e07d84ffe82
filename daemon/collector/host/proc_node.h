// SPDX-License-Identifier: Apache-2.0
// ProcNode: memory, disks and network interfaces of the node, as the kernel books them in /proc/meminfo, /proc/diskstats and
// /proc/1/net/dev (the network of process 1, which is the node's even where the daemon has one of its own; else /proc/net/dev).
//   mem.{total,free,available,buffers,cached,dirty,writeback,anonymous,shared,slab,swap_total,swap_free}_bytes, mem.huge_pages,
//   mem.huge_pages_free disk.{reads,writes}_total, disk.{read,written}_bytes_total, disk.{read,write,busy,queue}_ns_total,
//   disk.in_flight net.{received,sent}_{bytes,packets,errors,drops}_total
//
// Left out, so that a byte is not counted twice and a node with a thousand containers stays readable:
//   disks       loop, ram, zram, sr and fd devices; partitions (a disk has them inside; known by /sys/block, kept without it)
//   interfaces  ends of virtual cables and bridges: veth, docker, br-, virbr, cni, cali, lxc, flannel, tunl, tap, dummy, ifb.
//   What
//               passes them passes a port, or lo, which is kept
// A file that is missing gives no values; State says which.
#pragma once

#include <chrono>
#include <string>

#include "daemon/collector/host/metric_source.h"
#include "daemon/collector/host/state_box.h"

namespace stepscope {

class ProcNode final : public MetricSource {
 public:
  struct Options {
    std::string root;  ///< in front of /proc and /sys; empty = the machine itself
    std::chrono::milliseconds period{1000};
  };
  explicit ProcNode(Options options);

  CollectorState State() const override { return state_.Get(); }
  std::chrono::milliseconds period() const override { return options_.period; }
  void Start() override { SetState("on"); }
  void Sample(std::span<const ProcessKey> processes, MetricSink* sink) override;
  void Stop() override { SetState("idle"); }

 private:
  void SetState(const char* when_readable);

  const Options options_;
  StateBox state_;
};

}  // namespace stepscope
