// SPDX-License-Identifier: Apache-2.0
// Nvml: NVIDIA GPUs of the node through the driver's management library, opened while a job is tracked. Instance: the GPU's UUID.
//   each sample      nvml.{utilization,memory_utilization}_percent (NVML's own 1/6 s to 1 s mean: a busy GPU, not a full one),
//                    nvml.memory_{total,used,reserved}_bytes (older drivers: used_and_reserved), nvml.power_w,
//                    nvml.energy_j_total, nvml.temperature_celsius, nvml.{sm,memory}_clock_mhz, nvml.throttle_reasons_mask,
//                    nvml.throttled_by_* (0 or 1), nvml.{power,thermal}_violation_ns_total,
//                    nvml.nvlink_{sent,received}_bytes_total (all links), nvml.xid_events_total, nvml.last_xid (since NVML was
//                    opened), nvml.lost (0 or 1)
//   each 10th        nvml.ecc_{corrected,uncorrected}_errors_total (since the driver was loaded), nvml.remapped_rows_*_total,
//                    nvml.row_remap_{pending,failed}, nvml.pcie_{generation,width_lanes}, nvml.pcie_replays_total,
//                    nvml.nvlink_active_links, nvml.nvlink_*_errors_total (instance "<UUID>/link3")
// What a driver or GPU cannot tell is left out. Without a driver the state is unavailable. A GPU that falls off the bus says
// nvml.lost = 1 and nothing else; others go on.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "daemon/collector/host/metric_source.h"
#include "daemon/collector/host/nvml_api.h"
#include "daemon/collector/host/nvml_gpu.h"
#include "daemon/collector/host/state_box.h"

namespace stepscope {

class Nvml final : public MetricSource {
 public:
  struct Options {
    std::string library = "libnvidia-ml.so.1";
    std::chrono::milliseconds period{500};
  };
  explicit Nvml(Options options, std::unique_ptr<LibraryLoader> loader = std::make_unique<LibraryLoader>());
  ~Nvml() override { Stop(); }

  CollectorState State() const override { return state_.Get(); }
  std::chrono::milliseconds period() const override { return options_.period; }
  void Start() override;
  void Sample(std::span<const ProcessKey> processes, MetricSink* sink) override;
  void Stop() override;

 private:
  /// False, with the state set, when there is no library.
  bool LoadLibrary();
  void FindGpus();
  void OpenEvents();
  void TakeXids();
  void SetInitFailed(int result);
  void SetOn();

  const Options options_;
  const std::unique_ptr<LibraryLoader> loader_;
  std::unique_ptr<NvmlLibrary> library_;  ///< null: not started, or cannot
  std::string driver_;
  std::vector<NvmlGpu> gpus_;
  std::string unreachable_;  ///< GPUs that NVML counts but does not give, and why
  nvml::EventSet events_ = nullptr;
  int64_t samples_ = 0;
  StateBox state_;
};

}  // namespace stepscope
