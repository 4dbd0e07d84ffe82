// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/network_devices.h"

#include <fmt/format.h>

#include <filesystem>

#include "daemon/collector/host/sysfs_values.h"

namespace stepscope {
namespace {

// Far above any node; a tree that is larger is not one of devices.
constexpr size_t kMostDevices = 64;
constexpr size_t kMostPorts = 8;
constexpr size_t kMostCounters = 256;
constexpr uint64_t kWordBytes = 4;

/// What a device's metrics begin with: udev may rename a device, its driver stays.
std::string_view SourceOf(const std::string& device_path, const std::string& device) {
  std::error_code error;
  const auto driver = std::filesystem::read_symlink(device_path + "/device/driver", error);
  const bool is_efa = error ? device.starts_with("efa") : driver.filename() == "efa";
  return is_efa ? "efa" : "ib";
}

void AddCounters(std::string_view source, std::string_view instance, const std::string& directory, MetricSink* sink) {
  for (const std::string& file : ListNames(directory, kMostCounters)) {
    const auto word = MetricWord(file);
    if (!word || *word == "lifespan") continue;
    const auto count = ReadCount(fmt::format("{}/{}", directory, file));
    if (!count) continue;
    const bool is_words = *word == "port_xmit_data" || *word == "port_rcv_data";
    const std::string what = is_words ? word->substr(0, word->rfind('_')) + "_bytes" : *word;
    const double value = static_cast<double>(*count) * static_cast<double>(is_words ? kWordBytes : 1);
    sink->Add({.name = fmt::format("{}.{}_total", source, what), .instance = instance, .value = value});
  }
}

void AddPort(std::string_view source, std::string_view instance, const std::string& port, MetricSink* sink) {
  const std::string state = ReadLine(port + "/state");  // "4: ACTIVE"
  if (!state.empty()) {
    const std::string name = fmt::format("{}.port_active", source);
    sink->Add({.name = name, .instance = instance, .value = state.ends_with("ACTIVE") ? 1.0 : 0.0});
  }
  AddCounters(source, instance, port + "/counters", sink);
  AddCounters(source, instance, port + "/hw_counters", sink);
}

}  // namespace

NetworkDevices::NetworkDevices(Options options)
    : options_(std::move(options)), class_path_(options_.root + "/sys/class/infiniband") {
  SetState("idle");
}

void NetworkDevices::SetState(const char* when_there) {
  const size_t devices = ListNames(class_path_, kMostDevices).size();
  if (devices > 0) return state_.Set({"network", "full", when_there, "", "", {{"devices", std::to_string(devices)}}});
  state_.Set({"network",
              "none",
              "absent",
              fmt::format("no InfiniBand, RoCE or EFA device in {}", class_path_),
              "nothing if this node has none; else load its driver, and give a container the host's /sys",
              {}});
}

void NetworkDevices::Sample(std::span<const ProcessKey>, MetricSink* sink) {
  for (const std::string& device : ListNames(class_path_, kMostDevices)) {
    const std::string path = fmt::format("{}/{}", class_path_, device);
    const std::string_view source = SourceOf(path, device);
    AddCounters(source, device, path + "/hw_counters", sink);
    for (const std::string& port : ListNames(path + "/ports", kMostPorts)) {
      AddPort(source, fmt::format("{}/{}", device, port), fmt::format("{}/ports/{}", path, port), sink);
    }
  }
  SetState("on");
}

}  // namespace stepscope
