// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/neuron_sysfs.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <vector>

#include "base/proc_stat.h"
#include "daemon/collector/host/sysfs_values.h"
#include "daemon/collector/host/text_columns.h"

namespace stepscope {
namespace {

constexpr size_t kMostDevices = 64;
constexpr size_t kMostEntries = 256;
constexpr std::array<uint64_t, 3> kLiveSince = {2, 30, 2};

struct Reader {
  std::string instance;
  std::string path;
  MetricSink* sink;

  void Add(std::string_view name, uint64_t count, double unit = 1) const {
    sink->Add({.name = name, .instance = instance, .value = static_cast<double>(count) * unit});
  }
};

/// A counter is a directory with a file `total` in most drivers and places, a plain file in others.
std::optional<uint64_t> ReadTotal(const std::string& path) {
  const auto total = ReadCount(path + "/total");
  return total ? total : ReadCount(path);
}

/// Drivers before 2.8.4 said infer_… where newer ones say execute_….
std::string NewStatusName(const std::string& name) {
  constexpr std::string_view kOld = "infer_";
  return name.starts_with(kOld) ? "execute_" + name.substr(kOld.size()) : name;
}

void AddMemory(const Reader& reader, const std::string& directory, const char* sum, const char* part) {
  const std::string path = reader.path + directory;
  if (const auto bytes = ReadCount(path + "/total"); bytes && sum != nullptr) reader.Add(sum, *bytes);
  for (const std::string& category : ListNames(path, kMostEntries)) {
    const auto word = MetricWord(category);
    const auto bytes = ReadCount(fmt::format("{}/{}/total", path, category));
    if (word && bytes) reader.Add(fmt::format("neuron.{}_memory_{}_bytes", part, *word), *bytes);
  }
}

void AddStatus(const Reader& reader) {
  const std::string path = reader.path + "/stats/status";
  for (const std::string& file : ListNames(path, kMostEntries)) {
    const auto word = MetricWord(NewStatusName(file));
    const auto count = ReadTotal(fmt::format("{}/{}", path, file));
    if (word && count) reader.Add(fmt::format("neuron.status_{}_total", *word), *count);
  }
}

void AddOther(const Reader& reader) {
  for (const char* name : {"model_load_count", "reset_req_count", "reset_fail_count", "inference_count", "flop_count"}) {
    const auto count = ReadTotal(fmt::format("{}/stats/other_info/{}", reader.path, name));
    if (count) reader.Add(fmt::format("neuron.{}_total", name), *count);
  }
  const auto used_us = ReadTotal(reader.path + "/stats/other_info/nc_time_in_use");
  if (used_us) reader.Add("neuron.time_in_use_ns_total", *used_us, 1000);
}

// "xrow_grp,mm_active,wl_active,idle" and a line for each row group.
void AddTensorEngine(const Reader& reader) {
  const std::string text = ReadProcFile(reader.path + "/stats/tensor_engine/pe_cntrs");
  std::string_view rest = text;
  while (auto line = TakeLine(rest)) {
    std::string words(*line);
    for (char& c : words) c = c == ',' ? ' ' : c;
    std::string_view left = words;
    const auto row = ParseCount(TakeWord(left));
    const auto matmul = ParseCount(TakeWord(left));
    const auto weights = ParseCount(TakeWord(left));
    const auto idle = ParseCount(TakeWord(left));
    if (!row || !matmul || !weights || !idle) continue;
    const Reader of_row{fmt::format("{}/row{}", reader.instance, *row), "", reader.sink};
    of_row.Add("neuron.mm_active_cycles_total", *matmul);
    of_row.Add("neuron.wl_active_cycles_total", *weights);
    of_row.Add("neuron.idle_cycles_total", *idle);
  }
}

// "POWER_STATUS_VALID,<epoch s>,<least>,<most>,<mean>"; other words when there is nothing to say.
void AddPower(const Reader& reader) {
  const std::string line = ReadLine(reader.path + "/stats/power/utilization");
  if (!line.starts_with("POWER_STATUS_VALID,")) return;
  const std::string_view mean = std::string_view(line).substr(line.rfind(',') + 1);
  double percent = 0;
  const auto [end, error] = std::from_chars(mean.data(), mean.data() + mean.size(), percent, std::chars_format::fixed);
  if (error != std::errc() || end != mean.data() + mean.size() || !(percent >= 0)) return;
  reader.sink->Add({.name = "neuron.power_utilization_percent", .instance = reader.instance, .value = percent});
}

void AddDevice(const Reader& reader) {
  AddMemory(reader, "/stats/memory_usage/host_mem", nullptr, "host");
  for (const char* name : {"sram_ecc_uncorrected", "mem_ecc_uncorrected", "mem_ecc_repairable_uncorrected", "sram_ecc_corrected",
                           "mem_ecc_corrected"}) {
    const auto count = ReadTotal(fmt::format("{}/stats/hardware/{}", reader.path, name));
    if (count) reader.Add(fmt::format("neuron.{}_total", name), *count);
  }
  AddPower(reader);
}

void AddCore(const Reader& reader) {
  AddStatus(reader);
  AddMemory(reader, "/stats/memory_usage/host_mem", "neuron.core_host_memory_bytes", "core_host");
  AddMemory(reader, "/stats/memory_usage/device_mem", "neuron.device_memory_bytes", "device");
  AddOther(reader);
  AddTensorEngine(reader);
}

/// Number behind `prefix`; nullopt when the name is another.
std::optional<uint64_t> Numbered(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  return ParseCount(name.substr(prefix.size()));
}

std::vector<std::string> ListDevices(const std::string& path) {
  std::vector<std::string> devices = ListNames(path, kMostDevices);
  std::erase_if(devices, [](const std::string& name) { return !Numbered(name, "neuron"); });
  return devices;
}

/// What an operator should know of how old counters are; empty when they are live.
std::string StalenessOf(const std::string& version) {
  if (version.empty()) return "the driver's version is not known; before 2.30.2 the";
  std::string_view rest = version;
  std::array<uint64_t, 3> numbers{};
  for (uint64_t& number : numbers) {
    const size_t dot = std::min(rest.find('.'), rest.size());
    number = ParseCount(rest.substr(0, dot)).value_or(0);
    rest.remove_prefix(std::min(dot + 1, rest.size()));
  }
  return numbers < kLiveSince ? fmt::format("with driver {} the", version) : "";
}

}  // namespace

NeuronSysfs::NeuronSysfs(Options options)
    : options_(std::move(options)), devices_path_(options_.root + "/sys/devices/virtual/neuron_device") {
  SetState("idle");
}

void NeuronSysfs::SetState(const char* when_there) {
  const size_t devices = ListDevices(devices_path_).size();
  if (devices == 0) {
    return state_.Set({"neuron",
                       "none",
                       "absent",
                       fmt::format("no Neuron driver: nothing in {}", devices_path_),
                       "nothing if this node has no Trainium or Inferentia; else install aws-neuronx-dkms, and give a container "
                       "the host's /sys",
                       {}});
  }
  CollectorState state{"neuron", "full", when_there, "", "", {{"devices", std::to_string(devices)}}};
  const std::string version = ReadLine(options_.root + "/sys/module/neuron/version");
  if (!version.empty()) state.numbers["driver"] = version;
  if (const std::string stale = StalenessOf(version); !stale.empty()) {
    state.reason = stale + " counters of executions, FLOPs and time in use change only when a process ends; memory is live";
    state.next_step = "install Neuron driver 2.30.2 or newer for live counters";
  }
  state_.Set(std::move(state));
}

void NeuronSysfs::Sample(std::span<const ProcessKey>, MetricSink* sink) {
  for (const std::string& device : ListDevices(devices_path_)) {
    const Reader reader{device, fmt::format("{}/{}", devices_path_, device), sink};
    AddDevice(reader);
    for (const std::string& entry : ListNames(reader.path, kMostEntries)) {
      const auto core = Numbered(entry, "neuron_core");
      if (core) AddCore({fmt::format("{}/core{}", device, *core), fmt::format("{}/{}", reader.path, entry), sink});
    }
  }
  SetState("on");
}

}  // namespace stepscope
