// SPDX-License-Identifier: Apache-2.0
// The part of NVIDIA's management library (NVML) that is used, bound at run time: the driver brings the library, a machine
// without one has none. Types are our own, written after the public NVML reference; NVML keeps old entry points for ever and
// gives changed ones a new name (…_v2), so each name stands for one layout.
//   - Every entry is optional but five: a pointer stays null where a driver lacks it, and Missing() names it.
//   - A struct that the library fills ends in room to spare: a newer library that writes more than we know hurts nobody. (Arrays
//     cannot have that; nvmlFieldValue_t is 40 bytes in every version.)
// LibraryLoader is the seam: tests load a stand-in, or hide symbols.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace stepscope {

namespace nvml {

using Device = struct DeviceTag*;
using EventSet = struct EventSetTag*;

/// nvmlReturn_t, as far as we act on it.
enum Return : int {
  kSuccess = 0,
  kNotSupported = 3,
  kNoPermission = 4,
  kDriverNotLoaded = 9,
  kTimeout = 10,
  kFunctionNotFound = 13,
  kGpuIsLost = 15,
  kVersionMismatch = 18,
};

constexpr size_t kRoomToSpare = 64;

struct Utilization {
  unsigned gpu;     ///< percent of the last sample period (1 s to 1/6 s) with a kernel running
  unsigned memory;  ///< percent of it with device memory being read or written
  char to_spare[kRoomToSpare];
};

struct Memory {
  unsigned long long total_bytes, free_bytes, used_bytes;
  char to_spare[kRoomToSpare];
};

/// `used` without what the driver keeps for itself, which the older Memory counts in.
struct MemoryV2 {
  static constexpr unsigned kVersion = 40 | 2U << 24;  // size of the part below without room | version
  unsigned version;
  unsigned long long total_bytes, reserved_bytes, free_bytes, used_bytes;
  char to_spare[kRoomToSpare];
};
static_assert(offsetof(MemoryV2, to_spare) == 40);

struct ViolationTime {
  unsigned long long reference_us, violation_ns;
  char to_spare[kRoomToSpare];
};

struct EventData {
  Device device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
  char to_spare[kRoomToSpare];
};

union Value {
  double as_double;
  unsigned as_unsigned;
  unsigned long as_unsigned_long;
  unsigned long long as_unsigned_long_long;
  long long as_long_long;
};

struct FieldValue {
  unsigned field;
  unsigned scope;
  long long timestamp_us, latency_us;
  unsigned type;  ///< 0 double, 1 unsigned, 2 unsigned long, 3 unsigned long long, 4 long long
  int result;
  Value value;
};
static_assert(sizeof(FieldValue) == 40);

enum Field : unsigned { kFieldNvlinkSentKib = 138, kFieldNvlinkReceivedKib = 139 };
enum Clock : int { kClockSm = 1, kClockMemory = 2 };
enum Policy : int { kPolicyPower = 0, kPolicyThermal = 1 };
enum EccKind : int { kEccCorrected = 0, kEccUncorrected = 1 };
enum EccSince : int { kEccSinceLoad = 0 };
constexpr unsigned long long kEventXid = 8;
/// Field values of all links of a device together.
constexpr unsigned kAllLinks = ~0U;

struct Api {
  int (*Init)() = nullptr;
  int (*Shutdown)() = nullptr;
  int (*DeviceCount)(unsigned*) = nullptr;
  int (*DeviceByIndex)(unsigned, Device*) = nullptr;
  int (*DeviceUuid)(Device, char*, unsigned) = nullptr;

  const char* (*ErrorString)(int) = nullptr;
  int (*DriverVersion)(char*, unsigned) = nullptr;
  int (*GetUtilization)(Device, Utilization*) = nullptr;
  int (*GetMemory)(Device, Memory*) = nullptr;
  int (*GetMemoryV2)(Device, MemoryV2*) = nullptr;
  int (*PowerMilliwatts)(Device, unsigned*) = nullptr;
  int (*EnergyMillijoules)(Device, unsigned long long*) = nullptr;
  int (*Temperature)(Device, int sensor, unsigned*) = nullptr;
  int (*ClockMhz)(Device, int clock, unsigned*) = nullptr;
  int (*ThrottleReasons)(Device, unsigned long long*) = nullptr;
  int (*Violation)(Device, int policy, ViolationTime*) = nullptr;
  int (*EccErrors)(Device, int kind, int since, unsigned long long*) = nullptr;
  int (*RemappedRows)(Device, unsigned* corrected, unsigned* uncorrected, unsigned* pending, unsigned* failed) = nullptr;
  int (*PcieGeneration)(Device, unsigned*) = nullptr;
  int (*PcieWidth)(Device, unsigned*) = nullptr;
  int (*PcieReplays)(Device, unsigned*) = nullptr;
  int (*FieldValues)(Device, int count, FieldValue*) = nullptr;
  int (*NvlinkState)(Device, unsigned link, unsigned* is_active) = nullptr;
  int (*NvlinkErrors)(Device, unsigned link, int counter, unsigned long long*) = nullptr;
  int (*EventSetCreate)(EventSet*) = nullptr;
  int (*RegisterEvents)(Device, unsigned long long types, EventSet) = nullptr;
  int (*EventSetWait)(EventSet, EventData*, unsigned timeout_ms) = nullptr;
  int (*EventSetFree)(EventSet) = nullptr;
};

}  // namespace nvml

class LibraryLoader {
 public:
  virtual ~LibraryLoader() = default;
  /// nullptr when it cannot be loaded; `error` says why.
  virtual void* Open(const std::string& name, std::string* error);
  virtual void* Symbol(void* library, const char* name);
  virtual void Close(void* library);
};

class NvmlLibrary {
 public:
  /// NOT_FOUND: no such library. FAILED_PRECONDITION: one that lacks an entry we cannot do without. `loader` outlives the result.
  static absl::StatusOr<std::unique_ptr<NvmlLibrary>> Load(const std::string& name, LibraryLoader* loader);
  ~NvmlLibrary() { loader_->Close(handle_); }
  NvmlLibrary(const NvmlLibrary&) = delete;
  NvmlLibrary& operator=(const NvmlLibrary&) = delete;

  const nvml::Api& api() const { return api_; }
  /// Entries that this driver lacks, by their newest name.
  const std::vector<std::string>& missing() const { return missing_; }
  std::string ErrorText(int result) const;

 private:
  NvmlLibrary(void* handle, LibraryLoader* loader) : handle_(handle), loader_(loader) {}
  template <typename Function>
  void Bind(Function& function, std::initializer_list<const char*> names);
  void BindAll();

  void* const handle_;
  LibraryLoader* const loader_;
  nvml::Api api_;
  std::vector<std::string> missing_;
};

}  // namespace stepscope
