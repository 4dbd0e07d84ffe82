// SPDX-License-Identifier: Apache-2.0 (SIMULATED GPUs: every value that this library gives is made up)
// nvml_stand_in: a libnvidia-ml.so.1 without a driver, for tests of what reads NVML. Entry points and layouts follow the public
// NVML reference. The environment is read at nvmlInit; without it there are two healthy GPUs.
//   NVML_STAND_IN_GPUS=N                     how many, up to 8
//   NVML_STAND_IN_INIT=CODE                  nvmlInit fails with this
//   NVML_STAND_IN_LOST=INDEX:N               GPU INDEX answers N calls of nvmlDeviceGetUtilizationRates and is lost then
//   NVML_STAND_IN_FAIL=FUNCTION=CODE,…       these functions fail with these codes
//   NVML_STAND_IN_XID=INDEX:CODE             one Xid event waits on that GPU
// Built with NVML_STAND_IN_OLD it is a driver of long ago: names without _v2, none of the later functions, nothing else exported.
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kSuccess = 0, kUninitialized = 1, kInvalidArgument = 2, kNotSupported = 3, kTimeout = 10, kGpuIsLost = 15 };
enum { kMostGpus = 8, kLinks = 4 };

struct gpu {
  int index;
  int calls;       // of nvmlDeviceGetUtilizationRates
  int lost_after;  // -1: never
};

static struct gpu gpus[kMostGpus];
static int gpu_count;
static int is_open;
static int xid_gpu;
static unsigned long long xid_code;  // 0: none waits
static int xid_registered[kMostGpus];

static int NumberFrom(const char* name, int otherwise) {
  const char* text = getenv(name);
  return text != NULL ? atoi(text) : otherwise;
}

// "INDEX:NUMBER"; the number is -1 when the variable is not set.
static int PairFrom(const char* name, int* index) {
  const char* text = getenv(name);
  const char* colon = text != NULL ? strchr(text, ':') : NULL;
  if (colon == NULL) return -1;
  *index = atoi(text);
  return atoi(colon + 1);
}

static int FailureOf(const char* function) {
  const char* text = getenv("NVML_STAND_IN_FAIL");
  const size_t length = strlen(function);
  while (text != NULL && *text != '\0') {
    if (strncmp(text, function, length) == 0 && text[length] == '=') return atoi(text + length + 1);
    text = strchr(text, ',');
    if (text != NULL) ++text;
  }
  return kSuccess;
}

static int Check(const struct gpu* gpu, const char* function) {
  if (!is_open) return kUninitialized;
  if (gpu->lost_after >= 0 && gpu->calls >= gpu->lost_after) return kGpuIsLost;
  return FailureOf(function);
}

// Fails as the environment says, else goes on with the function's body.
#define CHECK(gpu)                            \
  do {                                        \
    const int failure = Check(gpu, __func__); \
    if (failure != kSuccess) return failure;  \
  } while (0)

static int Open(void) {
  const int failure = NumberFrom("NVML_STAND_IN_INIT", kSuccess);
  if (failure != kSuccess) return failure;
  gpu_count = NumberFrom("NVML_STAND_IN_GPUS", 2);
  if (gpu_count > kMostGpus) gpu_count = kMostGpus;
  int lost_gpu = -1;
  const int lost_after = PairFrom("NVML_STAND_IN_LOST", &lost_gpu);
  for (int i = 0; i < gpu_count; ++i) gpus[i] = (struct gpu){i, 0, i == lost_gpu ? lost_after : -1};
  const int xid = PairFrom("NVML_STAND_IN_XID", &xid_gpu);
  xid_code = xid > 0 ? (unsigned long long)xid : 0;
  memset(xid_registered, 0, sizeof(xid_registered));
  is_open = 1;
  return kSuccess;
}

static int Count(unsigned* count) {
  if (!is_open) return kUninitialized;
  *count = (unsigned)gpu_count;
  return kSuccess;
}

static int ByIndex(unsigned index, struct gpu** gpu) {
  if (!is_open) return kUninitialized;
  if (index >= (unsigned)gpu_count) return kInvalidArgument;
  const int failure = FailureOf("nvmlDeviceGetHandleByIndex");
  if (failure != kSuccess) return failure;
  *gpu = &gpus[index];
  return kSuccess;
}

int nvmlShutdown(void) {
  if (!is_open) return kUninitialized;
  is_open = 0;
  return kSuccess;
}

const char* nvmlErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "Success";
    case kNotSupported:
      return "Not Supported";
    case 9:
      return "Driver Not Loaded";
    case kGpuIsLost:
      return "GPU is lost";
    case 18:
      return "Driver/library version mismatch";
    default:
      return "Unknown Error";
  }
}

int nvmlSystemGetDriverVersion(char* version, unsigned length) {
  if (!is_open) return kUninitialized;
  snprintf(version, length, "simulated 0.0");
  return kSuccess;
}

int nvmlDeviceGetUUID(struct gpu* gpu, char* uuid, unsigned length) {
  CHECK(gpu);
  snprintf(uuid, length, "GPU-simulated-%d", gpu->index);
  return kSuccess;
}

int nvmlDeviceGetUtilizationRates(struct gpu* gpu, unsigned percent[2]) {
  CHECK(gpu);
  ++gpu->calls;
  percent[0] = 90U + (unsigned)gpu->index;
  percent[1] = 40U + (unsigned)gpu->index;
  return kSuccess;
}

int nvmlDeviceGetMemoryInfo(struct gpu* gpu, unsigned long long total_free_used[3]) {
  CHECK(gpu);
  total_free_used[0] = 80ULL << 30;
  total_free_used[1] = 49ULL << 30;
  total_free_used[2] = 31ULL << 30;
  return kSuccess;
}

int nvmlDeviceGetPowerUsage(struct gpu* gpu, unsigned* milliwatts) {
  CHECK(gpu);
  *milliwatts = 412500;
  return kSuccess;
}

int nvmlDeviceGetTemperature(struct gpu* gpu, int sensor, unsigned* celsius) {
  CHECK(gpu);
  if (sensor != 0) return kInvalidArgument;
  *celsius = 61;
  return kSuccess;
}

int nvmlDeviceGetClockInfo(struct gpu* gpu, int clock, unsigned* mhz) {
  CHECK(gpu);
  if (clock != 1 && clock != 2) return kInvalidArgument;
  *mhz = clock == 1 ? 1755 : 2619;
  return kSuccess;
}

int nvmlDeviceGetTotalEccErrors(struct gpu* gpu, int kind, int since, unsigned long long* errors) {
  CHECK(gpu);
  if (since != 0) return kInvalidArgument;
  *errors = kind == 0 ? 12 : 1;
  return kSuccess;
}

#ifdef NVML_STAND_IN_OLD

int nvmlInit(void) { return Open(); }
int nvmlDeviceGetCount(unsigned* count) { return Count(count); }
int nvmlDeviceGetHandleByIndex(unsigned index, struct gpu** gpu) { return ByIndex(index, gpu); }

#else

int nvmlInit_v2(void) { return Open(); }
int nvmlDeviceGetCount_v2(unsigned* count) { return Count(count); }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct gpu** gpu) { return ByIndex(index, gpu); }

struct memory_v2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};

int nvmlDeviceGetMemoryInfo_v2(struct gpu* gpu, struct memory_v2* memory) {
  CHECK(gpu);
  if (memory->version != (sizeof(*memory) | 2U << 24)) return kInvalidArgument;
  memory->total = 80ULL << 30;
  memory->reserved = 1ULL << 30;
  memory->free = 49ULL << 30;
  memory->used = 30ULL << 30;
  return kSuccess;
}

int nvmlDeviceGetTotalEnergyConsumption(struct gpu* gpu, unsigned long long* millijoules) {
  CHECK(gpu);
  *millijoules = 5000000ULL + 206250ULL * (unsigned)gpu->calls;
  return kSuccess;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(struct gpu* gpu, unsigned long long* reasons) {
  CHECK(gpu);
  *reasons = 0x4 | 0x40;  // the power cap and heat
  return kSuccess;
}

int nvmlDeviceGetViolationStatus(struct gpu* gpu, int policy, unsigned long long reference_and_violation[2]) {
  CHECK(gpu);
  reference_and_violation[0] = 1000000;
  reference_and_violation[1] = policy == 0 ? 750000000 : 250000000;
  return kSuccess;
}

int nvmlDeviceGetRemappedRows(struct gpu* gpu, unsigned* corrected, unsigned* uncorrected, unsigned* pending, unsigned* failed) {
  CHECK(gpu);
  *corrected = 3;
  *uncorrected = 1;
  *pending = 1;
  *failed = 0;
  return kSuccess;
}

int nvmlDeviceGetCurrPcieLinkGeneration(struct gpu* gpu, unsigned* generation) {
  CHECK(gpu);
  *generation = 5;
  return kSuccess;
}

int nvmlDeviceGetCurrPcieLinkWidth(struct gpu* gpu, unsigned* lanes) {
  CHECK(gpu);
  *lanes = gpu->index == 1 ? 8 : 16;  // the second one sits badly in its slot
  return kSuccess;
}

int nvmlDeviceGetPcieReplayCounter(struct gpu* gpu, unsigned* replays) {
  CHECK(gpu);
  *replays = 7;
  return kSuccess;
}

struct field_value {
  unsigned field, scope;
  long long timestamp, latency;
  unsigned type;
  int result;
  unsigned long long value;
};

int nvmlDeviceGetFieldValues(struct gpu* gpu, int count, struct field_value* fields) {
  CHECK(gpu);
  for (int i = 0; i < count; ++i) {
    const int is_known = (fields[i].field == 138 || fields[i].field == 139) && fields[i].scope == UINT_MAX;
    fields[i].type = 3;
    fields[i].result = is_known ? kSuccess : kNotSupported;
    fields[i].value = is_known ? fields[i].field * 1000ULL : 0;
  }
  return kSuccess;
}

int nvmlDeviceGetNvLinkState(struct gpu* gpu, unsigned link, unsigned* is_active) {
  CHECK(gpu);
  if (link >= kLinks) return kInvalidArgument;
  *is_active = link != 2;
  return kSuccess;
}

int nvmlDeviceGetNvLinkErrorCounter(struct gpu* gpu, unsigned link, int counter, unsigned long long* errors) {
  CHECK(gpu);
  if (link >= kLinks || counter < 0 || counter > 3) return kInvalidArgument;
  *errors = 100ULL * link + (unsigned)counter;
  return kSuccess;
}

struct event_data {
  struct gpu* gpu;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

int nvmlEventSetCreate(void** set) {
  *set = malloc(1);
  return FailureOf(__func__);
}

int nvmlEventSetFree(void* set) {
  free(set);
  return kSuccess;
}

int nvmlDeviceRegisterEvents(struct gpu* gpu, unsigned long long types, void* set) {
  CHECK(gpu);
  if (set == NULL || types != 8) return kInvalidArgument;
  xid_registered[gpu->index] = 1;
  return kSuccess;
}

int nvmlEventSetWait_v2(void* set, struct event_data* event, unsigned timeout_ms) {
  (void)timeout_ms;
  if (set == NULL) return kInvalidArgument;
  if (xid_code == 0 || !xid_registered[xid_gpu]) return kTimeout;
  *event = (struct event_data){&gpus[xid_gpu], 8, xid_code, UINT_MAX, UINT_MAX};
  xid_code = 0;
  return kSuccess;
}

#endif
