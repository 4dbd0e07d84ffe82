// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/nvml_api.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace stepscope {

void* LibraryLoader::Open(const std::string& name, std::string* error) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) *error = dlerror();
  return library;
}

void* LibraryLoader::Symbol(void* library, const char* name) { return dlsym(library, name); }

void LibraryLoader::Close(void* library) { dlclose(library); }

absl::StatusOr<std::unique_ptr<NvmlLibrary>> NvmlLibrary::Load(const std::string& name, LibraryLoader* loader) {
  std::string error;
  void* handle = loader->Open(name, &error);
  if (handle == nullptr) return absl::NotFoundError(error);
  std::unique_ptr<NvmlLibrary> library(new NvmlLibrary(handle, loader));
  library->BindAll();
  const nvml::Api& api = library->api_;
  if (api.Init == nullptr || api.Shutdown == nullptr || api.DeviceCount == nullptr || api.DeviceByIndex == nullptr ||
      api.DeviceUuid == nullptr) {
    return absl::FailedPreconditionError(fmt::format("{} lacks {}", name, fmt::join(library->missing_, ", ")));
  }
  return library;
}

std::string NvmlLibrary::ErrorText(int result) const {
  const char* text = api_.ErrorString != nullptr ? api_.ErrorString(result) : nullptr;
  return text != nullptr ? fmt::format("{} (NVML error {})", text, result) : fmt::format("NVML error {}", result);
}

template <typename Function>
void NvmlLibrary::Bind(Function& function, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    function = reinterpret_cast<Function>(loader_->Symbol(handle_, name));
    if (function != nullptr) return;
  }
  missing_.emplace_back(*names.begin());
}

void NvmlLibrary::BindAll() {
  Bind(api_.Init, {"nvmlInit_v2", "nvmlInit"});
  Bind(api_.Shutdown, {"nvmlShutdown"});
  Bind(api_.DeviceCount, {"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"});
  Bind(api_.DeviceByIndex, {"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"});
  Bind(api_.DeviceUuid, {"nvmlDeviceGetUUID"});
  Bind(api_.ErrorString, {"nvmlErrorString"});
  Bind(api_.DriverVersion, {"nvmlSystemGetDriverVersion"});
  Bind(api_.GetUtilization, {"nvmlDeviceGetUtilizationRates"});
  Bind(api_.GetMemory, {"nvmlDeviceGetMemoryInfo"});
  Bind(api_.GetMemoryV2, {"nvmlDeviceGetMemoryInfo_v2"});
  Bind(api_.PowerMilliwatts, {"nvmlDeviceGetPowerUsage"});
  Bind(api_.EnergyMillijoules, {"nvmlDeviceGetTotalEnergyConsumption"});
  Bind(api_.Temperature, {"nvmlDeviceGetTemperature"});
  Bind(api_.ClockMhz, {"nvmlDeviceGetClockInfo"});
  Bind(api_.ThrottleReasons, {"nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"});
  Bind(api_.Violation, {"nvmlDeviceGetViolationStatus"});
  Bind(api_.EccErrors, {"nvmlDeviceGetTotalEccErrors"});
  Bind(api_.RemappedRows, {"nvmlDeviceGetRemappedRows"});
  Bind(api_.PcieGeneration, {"nvmlDeviceGetCurrPcieLinkGeneration"});
  Bind(api_.PcieWidth, {"nvmlDeviceGetCurrPcieLinkWidth"});
  Bind(api_.PcieReplays, {"nvmlDeviceGetPcieReplayCounter"});
  Bind(api_.FieldValues, {"nvmlDeviceGetFieldValues"});
  Bind(api_.NvlinkState, {"nvmlDeviceGetNvLinkState"});
  Bind(api_.NvlinkErrors, {"nvmlDeviceGetNvLinkErrorCounter"});
  Bind(api_.EventSetCreate, {"nvmlEventSetCreate"});
  Bind(api_.RegisterEvents, {"nvmlDeviceRegisterEvents"});
  Bind(api_.EventSetWait, {"nvmlEventSetWait_v2", "nvmlEventSetWait"});
  Bind(api_.EventSetFree, {"nvmlEventSetFree"});
}

}  // namespace stepscope
