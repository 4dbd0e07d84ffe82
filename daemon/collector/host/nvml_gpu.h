// SPDX-License-Identifier: Apache-2.0
// NvmlGpu: one GPU as NVML sees it, for the source in nvml.h, which lists the metrics. A value is said only when the library gave
// it: an entry that is missing, not supported or failing leaves its metric out. After the library once said that the GPU is lost,
// nothing is asked of it again: calls on a lost GPU can take seconds.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "daemon/collector/host/metric_source.h"
#include "daemon/collector/host/nvml_api.h"

namespace stepscope {

class NvmlGpu {
 public:
  NvmlGpu(const nvml::Api* api, nvml::Device device, std::string uuid) : api_(api), device_(device), uuid_(std::move(uuid)) {}

  const std::string& uuid() const { return uuid_; }
  bool is_lost() const { return is_lost_; }
  bool Is(nvml::Device device, std::string_view uuid) const { return device == device_ || uuid == uuid_; }
  /// What changes from sample to sample.
  void AddLoad(MetricSink* sink);
  /// What changes rarely and costs more to ask: errors, links.
  void AddHealth(MetricSink* sink);
  /// Xid errors of this GPU are counted from now on, if it can tell.
  void CountXids(nvml::EventSet events);
  void OnXid(unsigned long long xid);

 private:
  /// True when the entry is there and succeeded.
  template <typename... Parameters, typename... Arguments>
  bool Ask(int (*function)(nvml::Device, Parameters...), Arguments... arguments);
  void Add(std::string_view name, double value, MetricSink* sink) const;
  void AddMemory(MetricSink* sink);
  void AddThrottling(MetricSink* sink);
  void AddNvlinkBytes(MetricSink* sink);
  void AddNvlinkErrors(unsigned link, MetricSink* sink);
  void AddNvlinks(MetricSink* sink);

  const nvml::Api* api_;
  nvml::Device device_;
  std::string uuid_;
  bool is_lost_ = false;
  bool tells_xids_ = false;
  int64_t xids_ = 0;
  unsigned long long last_xid_ = 0;
};

}  // namespace stepscope
