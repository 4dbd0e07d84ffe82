// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/nvml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace stepscope {
namespace {

constexpr unsigned kMostGpus = 64;
constexpr int64_t kSamplesPerHealthCheck = 10;
constexpr int kMostXidsPerSample = 64;
constexpr unsigned kTextBytes = 96;

const char* NextStep(int init_result) {
  switch (init_result) {
    case nvml::kDriverNotLoaded:
      return "load the nvidia kernel module; nvidia-smi does";
    case nvml::kVersionMismatch:
      return "the library and the loaded kernel module are of different versions: reload the module or reboot";
    case nvml::kNoPermission:
      return "give the daemon access to /dev/nvidiactl and /dev/nvidia0, 1, …";
    default:
      return "run nvidia-smi on the node: it uses the same library";
  }
}

}  // namespace

Nvml::Nvml(Options options, std::unique_ptr<LibraryLoader> loader) : options_(std::move(options)), loader_(std::move(loader)) {
  if (LoadLibrary()) state_.Set({"nvml", "full", "idle", "", "", {}});
  library_.reset();
}

bool Nvml::LoadLibrary() {
  auto library = NvmlLibrary::Load(options_.library, loader_.get());
  if (library.ok()) {
    library_ = *std::move(library);
    return true;
  }
  const std::string cause(library.status().message());
  if (absl::IsNotFound(library.status())) {
    state_.Set({"nvml",
                "none",
                "absent",
                fmt::format("no NVIDIA driver ({})", cause),
                "nothing if this node has no NVIDIA GPU; else install its driver; in a container set "
                "NVIDIA_DRIVER_CAPABILITIES=utility",
                {}});
  } else {
    state_.Set({"nvml", "none", "unavailable", cause, "install a newer NVIDIA driver", {}});
  }
  return false;
}

void Nvml::Start() {
  if (!LoadLibrary()) return;
  if (const int result = library_->api().Init(); result != nvml::kSuccess) return SetInitFailed(result);
  char driver[kTextBytes] = "";
  if (library_->api().DriverVersion != nullptr) library_->api().DriverVersion(driver, kTextBytes - 1);
  driver_ = driver;
  samples_ = 0;
  FindGpus();
  OpenEvents();
  SetOn();
}

void Nvml::SetInitFailed(int result) {
  state_.Set({"nvml", "none", "unavailable", fmt::format("nvmlInit: {}", library_->ErrorText(result)), NextStep(result), {}});
  library_.reset();
}

void Nvml::FindGpus() {
  const nvml::Api& api = library_->api();
  unsigned count = 0;
  if (const int result = api.DeviceCount(&count); result != nvml::kSuccess) {
    unreachable_ = fmt::format("nvmlDeviceGetCount: {}", library_->ErrorText(result));
    return;
  }
  for (unsigned index = 0; index < std::min(count, kMostGpus); ++index) {
    nvml::Device device = nullptr;
    char uuid[kTextBytes] = "";
    int result = api.DeviceByIndex(index, &device);
    if (result == nvml::kSuccess) result = api.DeviceUuid(device, uuid, kTextBytes - 1);
    if (result == nvml::kSuccess) {
      gpus_.emplace_back(&api, device, uuid);
    } else {
      unreachable_ += fmt::format("{}GPU {}: {}", unreachable_.empty() ? "" : "; ", index, library_->ErrorText(result));
    }
  }
}

void Nvml::OpenEvents() {
  const nvml::Api& api = library_->api();
  if (api.EventSetCreate == nullptr || api.EventSetWait == nullptr || api.EventSetFree == nullptr) return;
  if (api.EventSetCreate(&events_) != nvml::kSuccess) {
    events_ = nullptr;
    return;
  }
  for (NvmlGpu& gpu : gpus_) gpu.CountXids(events_);
}

void Nvml::Sample(std::span<const ProcessKey>, MetricSink* sink) {
  if (library_ == nullptr) return;
  TakeXids();
  const bool is_health_check = samples_++ % kSamplesPerHealthCheck == 0;
  for (NvmlGpu& gpu : gpus_) {
    if (is_health_check) gpu.AddHealth(sink);
    gpu.AddLoad(sink);
  }
  SetOn();
}

void Nvml::TakeXids() {
  if (events_ == nullptr) return;
  for (int i = 0; i < kMostXidsPerSample; ++i) {
    nvml::EventData event{};
    if (library_->api().EventSetWait(events_, &event, 0) != nvml::kSuccess) return;
    if (event.type != nvml::kEventXid) continue;
    char uuid[kTextBytes] = "";  // stays empty for a GPU that fell off the bus with this very event
    library_->api().DeviceUuid(event.device, uuid, kTextBytes - 1);
    for (NvmlGpu& gpu : gpus_) {
      if (gpu.Is(event.device, uuid)) gpu.OnXid(event.data);
    }
  }
}

void Nvml::SetOn() {
  CollectorState state{"nvml", "full", "on", "", "", {}};
  state.numbers = {{"GPUs", std::to_string(gpus_.size())}, {"driver", driver_}};
  if (!library_->missing().empty()) {
    state.numbers["functions this driver lacks"] = fmt::format("{}", fmt::join(library_->missing(), ", "));
  }
  std::vector<std::string> problems;
  if (!unreachable_.empty()) problems.push_back(unreachable_);
  for (const NvmlGpu& gpu : gpus_) {
    if (gpu.is_lost()) problems.push_back(fmt::format("{} is lost", gpu.uuid()));
  }
  if (gpus_.empty() && problems.empty()) problems.emplace_back("NVML finds no GPU");
  if (!problems.empty()) {
    if (gpus_.empty()) state.level = "none";
    state.reason = fmt::format("{}", fmt::join(problems, "; "));
    state.next_step = "look for Xid errors in the kernel's log; a lost GPU needs a reset or a reboot of the node";
  }
  state_.Set(std::move(state));
}

void Nvml::Stop() {
  gpus_.clear();
  unreachable_.clear();
  if (library_ == nullptr) return;
  if (events_ != nullptr) library_->api().EventSetFree(events_);
  events_ = nullptr;
  library_->api().Shutdown();
  library_.reset();
  state_.Set({"nvml", "full", "idle", "", "", {}});
}

}  // namespace stepscope
