// SPDX-License-Identifier: Apache-2.0
// NetworkDevices: counters of InfiniBand, RoCE and EFA devices, below /sys/class/infiniband.
//   <DEVICE>/ports/<PORT>/counters/*, hw_counters/*      instance "mlx5_0/1"
//   <DEVICE>/hw_counters/*                               instance "mlx5_0"
//   <DEVICE>/ports/<PORT>/state                          {ib,efa}.port_active: 1 when ACTIVE
// A counter is called as its file is, "ib.<file>_total" or, on a device of the efa driver, "efa.<file>_total": drivers add and
// drop counters, so they are listed, not expected. Two files count words of four bytes
// (Documentation/ABI/stable/sysfs-class-infiniband) and are said in bytes: port_xmit_data is ib.port_xmit_bytes_total,
// port_rcv_data is ib.port_rcv_bytes_total. `lifespan` is a setting, not a counter.
//
// A read of an EFA port's counters makes the driver ask the device up to five times, so the period is a second and not less.
#pragma once

#include <chrono>
#include <string>

#include "daemon/collector/host/metric_source.h"
#include "daemon/collector/host/state_box.h"

namespace stepscope {

class NetworkDevices final : public MetricSource {
 public:
  struct Options {
    std::string root;  ///< in front of /sys; empty = the machine itself
    std::chrono::milliseconds period{1000};
  };
  explicit NetworkDevices(Options options);

  CollectorState State() const override { return state_.Get(); }
  std::chrono::milliseconds period() const override { return options_.period; }
  void Start() override { SetState("on"); }
  void Sample(std::span<const ProcessKey> processes, MetricSink* sink) override;
  void Stop() override { SetState("idle"); }

 private:
  void SetState(const char* when_there);

  const Options options_;
  const std::string class_path_;
  StateBox state_;
};

}  // namespace stepscope
