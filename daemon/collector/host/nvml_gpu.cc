// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/nvml_gpu.h"

#include <fmt/format.h>

#include <iterator>
#include <optional>

namespace stepscope {
namespace {

constexpr unsigned kMostLinks = 18;  // NVML_NVLINK_MAX_LINKS
constexpr double kKib = 1024;

struct ThrottleBit {
  const char* name;
  unsigned long long mask;
};
// nvmlClocksEventReasons; the rest of the mask (idle, application clocks, sync boost) is no fault.
constexpr ThrottleBit kThrottle[] = {
    {"nvml.throttled_by_power_cap", 0x4},
    {"nvml.throttled_by_hardware", 0x8},
    {"nvml.throttled_by_heat", 0x20 | 0x40},
    {"nvml.throttled_by_power_brake", 0x80},
};

// nvmlNvLinkErrorCounter_t, in its order.
constexpr const char* kLinkErrors[] = {"nvml.nvlink_replay_errors_total", "nvml.nvlink_recovery_errors_total",
                                       "nvml.nvlink_crc_flit_errors_total", "nvml.nvlink_crc_data_errors_total"};

std::optional<double> AsDouble(const nvml::FieldValue& field) {
  if (field.result != nvml::kSuccess) return std::nullopt;
  switch (field.type) {
    case 0:
      return field.value.as_double;
    case 1:
      return field.value.as_unsigned;
    case 2:
      return static_cast<double>(field.value.as_unsigned_long);
    case 3:
      return static_cast<double>(field.value.as_unsigned_long_long);
    case 4:
      return static_cast<double>(field.value.as_long_long);
    default:
      return std::nullopt;
  }
}

}  // namespace

template <typename... Parameters, typename... Arguments>
bool NvmlGpu::Ask(int (*function)(nvml::Device, Parameters...), Arguments... arguments) {
  if (function == nullptr || is_lost_) return false;
  const int result = function(device_, arguments...);
  if (result == nvml::kGpuIsLost) is_lost_ = true;
  return result == nvml::kSuccess;
}

void NvmlGpu::Add(std::string_view name, double value, MetricSink* sink) const {
  sink->Add({.name = name, .instance = uuid_, .value = value});
}

void NvmlGpu::AddLoad(MetricSink* sink) {
  nvml::Utilization utilization{};
  if (Ask(api_->GetUtilization, &utilization)) {
    Add("nvml.utilization_percent", utilization.gpu, sink);
    Add("nvml.memory_utilization_percent", utilization.memory, sink);
  }
  AddMemory(sink);
  unsigned number = 0;
  unsigned long long large = 0;
  if (Ask(api_->PowerMilliwatts, &number)) Add("nvml.power_w", number / 1e3, sink);
  if (Ask(api_->EnergyMillijoules, &large)) Add("nvml.energy_j_total", static_cast<double>(large) / 1e3, sink);
  if (Ask(api_->Temperature, 0, &number)) Add("nvml.temperature_celsius", number, sink);
  if (Ask(api_->ClockMhz, nvml::kClockSm, &number)) Add("nvml.sm_clock_mhz", number, sink);
  if (Ask(api_->ClockMhz, nvml::kClockMemory, &number)) Add("nvml.memory_clock_mhz", number, sink);
  AddThrottling(sink);
  AddNvlinkBytes(sink);
  if (tells_xids_) Add("nvml.xid_events_total", static_cast<double>(xids_), sink);
  if (xids_ > 0) Add("nvml.last_xid", static_cast<double>(last_xid_), sink);
  Add("nvml.lost", is_lost_ ? 1 : 0, sink);
}

void NvmlGpu::AddMemory(MetricSink* sink) {
  nvml::MemoryV2 memory{};
  memory.version = nvml::MemoryV2::kVersion;
  if (Ask(api_->GetMemoryV2, &memory)) {
    Add("nvml.memory_total_bytes", static_cast<double>(memory.total_bytes), sink);
    Add("nvml.memory_used_bytes", static_cast<double>(memory.used_bytes), sink);
    Add("nvml.memory_reserved_bytes", static_cast<double>(memory.reserved_bytes), sink);
    return;
  }
  nvml::Memory older{};
  if (!Ask(api_->GetMemory, &older)) return;
  Add("nvml.memory_total_bytes", static_cast<double>(older.total_bytes), sink);
  Add("nvml.memory_used_and_reserved_bytes", static_cast<double>(older.used_bytes), sink);
}

void NvmlGpu::AddThrottling(MetricSink* sink) {
  unsigned long long reasons = 0;
  if (Ask(api_->ThrottleReasons, &reasons)) {
    Add("nvml.throttle_reasons_mask", static_cast<double>(reasons), sink);
    for (const ThrottleBit& bit : kThrottle) Add(bit.name, (reasons & bit.mask) != 0 ? 1 : 0, sink);
  }
  nvml::ViolationTime time{};
  if (Ask(api_->Violation, nvml::kPolicyPower, &time)) {
    Add("nvml.power_violation_ns_total", static_cast<double>(time.violation_ns), sink);
  }
  if (Ask(api_->Violation, nvml::kPolicyThermal, &time)) {
    Add("nvml.thermal_violation_ns_total", static_cast<double>(time.violation_ns), sink);
  }
}

void NvmlGpu::AddNvlinkBytes(MetricSink* sink) {
  nvml::FieldValue fields[2] = {};
  fields[0].field = nvml::kFieldNvlinkSentKib;
  fields[1].field = nvml::kFieldNvlinkReceivedKib;
  for (nvml::FieldValue& field : fields) {
    field.scope = nvml::kAllLinks;
    field.result = nvml::kNotSupported;  // a library that leaves a field alone must not read as zero bytes
  }
  if (!Ask(api_->FieldValues, int{std::size(fields)}, &fields[0])) return;
  if (const auto kib = AsDouble(fields[0])) Add("nvml.nvlink_sent_bytes_total", *kib * kKib, sink);
  if (const auto kib = AsDouble(fields[1])) Add("nvml.nvlink_received_bytes_total", *kib * kKib, sink);
}

void NvmlGpu::AddHealth(MetricSink* sink) {
  unsigned long long errors = 0;
  if (Ask(api_->EccErrors, nvml::kEccCorrected, nvml::kEccSinceLoad, &errors)) {
    Add("nvml.ecc_corrected_errors_total", static_cast<double>(errors), sink);
  }
  if (Ask(api_->EccErrors, nvml::kEccUncorrected, nvml::kEccSinceLoad, &errors)) {
    Add("nvml.ecc_uncorrected_errors_total", static_cast<double>(errors), sink);
  }
  unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
  if (Ask(api_->RemappedRows, &corrected, &uncorrected, &pending, &failed)) {
    Add("nvml.remapped_rows_corrected_total", corrected, sink);
    Add("nvml.remapped_rows_uncorrected_total", uncorrected, sink);
    Add("nvml.row_remap_pending", pending, sink);
    Add("nvml.row_remap_failed", failed, sink);
  }
  unsigned number = 0;
  if (Ask(api_->PcieGeneration, &number)) Add("nvml.pcie_generation", number, sink);
  if (Ask(api_->PcieWidth, &number)) Add("nvml.pcie_width_lanes", number, sink);
  if (Ask(api_->PcieReplays, &number)) Add("nvml.pcie_replays_total", number, sink);
  AddNvlinks(sink);
}

void NvmlGpu::AddNvlinks(MetricSink* sink) {
  unsigned active_links = 0;
  unsigned link = 0;
  for (unsigned is_active = 0; link < kMostLinks && Ask(api_->NvlinkState, link, &is_active); ++link) {
    if (is_active == 0) continue;
    ++active_links;
    AddNvlinkErrors(link, sink);
  }
  if (link > 0) Add("nvml.nvlink_active_links", active_links, sink);
}

void NvmlGpu::AddNvlinkErrors(unsigned link, MetricSink* sink) {
  const std::string instance = fmt::format("{}/link{}", uuid_, link);
  for (size_t counter = 0; counter < std::size(kLinkErrors); ++counter) {
    unsigned long long errors = 0;
    if (!Ask(api_->NvlinkErrors, link, static_cast<int>(counter), &errors)) continue;
    sink->Add({.name = kLinkErrors[counter], .instance = instance, .value = static_cast<double>(errors)});
  }
}

void NvmlGpu::CountXids(nvml::EventSet events) { tells_xids_ = Ask(api_->RegisterEvents, nvml::kEventXid, events); }

void NvmlGpu::OnXid(unsigned long long xid) {
  ++xids_;
  last_xid_ = xid;
}

}  // namespace stepscope
