// SPDX-License-Identifier: Apache-2.0
// Against stand-ins for the driver's library: what they say is simulated.
#include "daemon/collector/host/nvml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>

#include "tests/unit/host/fake_tree.h"

namespace stepscope {
namespace {

using testing::HasSubstr;

const std::string kGpu0 = "GPU-simulated-0";
const std::string kGpu1 = "GPU-simulated-1";

using Variables = std::map<std::string, std::string>;

/// Sets what the stand-in reads, for one test.
class StandInEnvironment {
 public:
  explicit StandInEnvironment(Variables variables) : variables_(std::move(variables)) {
    for (const auto& [name, value] : variables_) setenv(name.c_str(), value.c_str(), 1);
  }
  ~StandInEnvironment() {
    for (const auto& [name, value] : variables_) unsetenv(name.c_str());
  }

 private:
  const Variables variables_;
};

/// A driver without some functions.
class HidingLoader final : public LibraryLoader {
 public:
  explicit HidingLoader(std::set<std::string> hidden) : hidden_(std::move(hidden)) {}
  void* Symbol(void* library, const char* name) override {
    return hidden_.contains(name) ? nullptr : LibraryLoader::Symbol(library, name);
  }

 private:
  std::set<std::string> hidden_;
};

TEST(Nvml, TwoGpusSayTheirLoadPowerAndClocks) {
  Nvml source({NVML_STAND_IN});
  source.Start();
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("nvml.utilization_percent", kGpu0), 90);
  EXPECT_EQ(values("nvml.utilization_percent", kGpu1), 91);
  EXPECT_EQ(values("nvml.memory_utilization_percent", kGpu0), 40);
  EXPECT_EQ(values("nvml.memory_used_bytes", kGpu0), 30.0 * (1 << 30));
  EXPECT_EQ(values("nvml.memory_reserved_bytes", kGpu0), 1.0 * (1 << 30));
  EXPECT_EQ(values("nvml.power_w", kGpu0), 412.5);
  EXPECT_EQ(values("nvml.energy_j_total", kGpu0), 5206.25);
  EXPECT_EQ(values("nvml.temperature_celsius", kGpu0), 61);
  EXPECT_EQ(values("nvml.sm_clock_mhz", kGpu0), 1755);
  EXPECT_EQ(values("nvml.memory_clock_mhz", kGpu0), 2619);
  EXPECT_EQ(values("nvml.lost", kGpu0), 0);
  EXPECT_EQ(source.State().state, "on");
  EXPECT_EQ(source.State().numbers.at("driver"), "simulated 0.0");
  EXPECT_EQ(source.State().numbers.at("GPUs"), "2");
}

TEST(Nvml, ThrottlingIsSaidByCauseAndInTime) {
  Nvml source({NVML_STAND_IN});
  source.Start();
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("nvml.throttle_reasons_mask", kGpu0), 0x44);
  EXPECT_EQ(values("nvml.throttled_by_power_cap", kGpu0), 1);
  EXPECT_EQ(values("nvml.throttled_by_heat", kGpu0), 1);
  EXPECT_EQ(values("nvml.throttled_by_power_brake", kGpu0), 0);
  EXPECT_EQ(values("nvml.power_violation_ns_total", kGpu0), 750e6);
  EXPECT_EQ(values("nvml.thermal_violation_ns_total", kGpu0), 250e6);
}

TEST(Nvml, HealthIsAskedWithTheFirstSampleAndThenEachTenth) {
  Nvml source({NVML_STAND_IN});
  source.Start();
  const KeptValues first = SampleOf(source);
  EXPECT_EQ(first("nvml.ecc_corrected_errors_total", kGpu0), 12);
  EXPECT_EQ(first("nvml.ecc_uncorrected_errors_total", kGpu0), 1);
  EXPECT_EQ(first("nvml.remapped_rows_uncorrected_total", kGpu0), 1);
  EXPECT_EQ(first("nvml.row_remap_pending", kGpu0), 1);
  EXPECT_EQ(first("nvml.pcie_generation", kGpu0), 5);
  EXPECT_EQ(first("nvml.pcie_width_lanes", kGpu0), 16);
  EXPECT_EQ(first("nvml.pcie_width_lanes", kGpu1), 8);
  EXPECT_EQ(first("nvml.pcie_replays_total", kGpu0), 7);
  for (int sample = 1; sample < 10; ++sample) EXPECT_FALSE(SampleOf(source).Has("nvml.pcie_generation", kGpu0)) << sample;
  EXPECT_TRUE(SampleOf(source).Has("nvml.pcie_generation", kGpu0));
}

TEST(Nvml, NvlinkBytesAreThoseOfAllLinksAndErrorsThoseOfEachActiveOne) {
  Nvml source({NVML_STAND_IN});
  source.Start();
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("nvml.nvlink_sent_bytes_total", kGpu0), 138000.0 * 1024);
  EXPECT_EQ(values("nvml.nvlink_received_bytes_total", kGpu0), 139000.0 * 1024);
  EXPECT_EQ(values("nvml.nvlink_active_links", kGpu0), 3);
  EXPECT_EQ(values("nvml.nvlink_recovery_errors_total", kGpu0 + "/link3"), 301);
  EXPECT_FALSE(values.Has("nvml.nvlink_recovery_errors_total", kGpu0 + "/link2")) << "it is down";
}

TEST(Nvml, AGpuThatIsLostSaysOnlyThatAndTheOtherGoesOn) {
  const StandInEnvironment environment(Variables{{"NVML_STAND_IN_LOST", "1:2"}, {"NVML_STAND_IN_XID", "1:79"}});
  Nvml source({NVML_STAND_IN});
  source.Start();
  EXPECT_EQ(SampleOf(source)("nvml.lost", kGpu1), 0);
  SampleOf(source);
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("nvml.lost", kGpu1), 1);
  EXPECT_FALSE(values.Has("nvml.utilization_percent", kGpu1));
  EXPECT_FALSE(values.Has("nvml.power_w", kGpu1));
  EXPECT_EQ(values("nvml.last_xid", kGpu1), 79);
  EXPECT_EQ(values("nvml.utilization_percent", kGpu0), 90);
  EXPECT_EQ(source.State().reason, "GPU-simulated-1 is lost");
  EXPECT_THAT(source.State().next_step, HasSubstr("reset or a reboot"));
}

TEST(Nvml, AnXidIsCountedOnTheGpuItHappenedOn) {
  const StandInEnvironment environment(Variables{{"NVML_STAND_IN_XID", "1:31"}});
  Nvml source({NVML_STAND_IN});
  source.Start();
  SampleOf(source);
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("nvml.xid_events_total", kGpu1), 1) << "once, not with each sample";
  EXPECT_EQ(values("nvml.last_xid", kGpu1), 31);
  EXPECT_EQ(values("nvml.xid_events_total", kGpu0), 0);
  EXPECT_FALSE(values.Has("nvml.last_xid", kGpu0));
}

TEST(Nvml, WhatIsNotSupportedIsLeftOut) {
  const StandInEnvironment environment(
      Variables{{"NVML_STAND_IN_FAIL",
                 "nvmlDeviceGetPowerUsage=3,nvmlDeviceGetRemappedRows=3,nvmlDeviceGetFieldValues=3,nvmlDeviceRegisterEvents=3"}});
  Nvml source({NVML_STAND_IN});
  source.Start();
  const KeptValues values = SampleOf(source);
  for (const char* name : {"nvml.power_w", "nvml.row_remap_pending", "nvml.nvlink_sent_bytes_total", "nvml.xid_events_total"}) {
    EXPECT_FALSE(values.Has(name, kGpu0)) << name;
  }
  EXPECT_TRUE(values.Has("nvml.temperature_celsius", kGpu0));
  EXPECT_EQ(source.State().reason, "");
}

TEST(Nvml, AnOldDriverSaysWhatItCan) {
  Nvml source({NVML_OLD_STAND_IN});
  source.Start();
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("nvml.utilization_percent", kGpu1), 91);
  EXPECT_EQ(values("nvml.memory_used_and_reserved_bytes", kGpu0), 31.0 * (1 << 30));
  EXPECT_EQ(values("nvml.ecc_corrected_errors_total", kGpu0), 12);
  EXPECT_FALSE(values.Has("nvml.memory_used_bytes", kGpu0));
  EXPECT_FALSE(values.Has("nvml.xid_events_total", kGpu0));
  EXPECT_FALSE(values.Has("nvml.nvlink_active_links", kGpu0));
  EXPECT_THAT(source.State().numbers.at("functions this driver lacks"), HasSubstr("nvmlDeviceGetMemoryInfo_v2, "));
}

TEST(Nvml, EveryOptionalFunctionMayBeMissing) {
  for (const char* hidden : {"nvmlErrorString",
                             "nvmlSystemGetDriverVersion",
                             "nvmlDeviceGetUtilizationRates",
                             "nvmlDeviceGetMemoryInfo_v2",
                             "nvmlDeviceGetPowerUsage",
                             "nvmlDeviceGetTotalEnergyConsumption",
                             "nvmlDeviceGetTemperature",
                             "nvmlDeviceGetClockInfo",
                             "nvmlDeviceGetCurrentClocksThrottleReasons",
                             "nvmlDeviceGetViolationStatus",
                             "nvmlDeviceGetTotalEccErrors",
                             "nvmlDeviceGetRemappedRows",
                             "nvmlDeviceGetCurrPcieLinkGeneration",
                             "nvmlDeviceGetCurrPcieLinkWidth",
                             "nvmlDeviceGetPcieReplayCounter",
                             "nvmlDeviceGetFieldValues",
                             "nvmlDeviceGetNvLinkState",
                             "nvmlDeviceGetNvLinkErrorCounter",
                             "nvmlEventSetCreate",
                             "nvmlDeviceRegisterEvents",
                             "nvmlEventSetWait_v2",
                             "nvmlEventSetFree"}) {
    Nvml source({NVML_STAND_IN}, std::make_unique<HidingLoader>(std::set<std::string>{hidden}));
    source.Start();
    EXPECT_EQ(SampleOf(source)("nvml.lost", kGpu1), 0) << hidden;
    EXPECT_EQ(source.State().state, "on") << hidden;
    source.Stop();
  }
}

TEST(Nvml, WithoutWhatItCannotDoWithoutItIsUnavailable) {
  Nvml source({NVML_STAND_IN}, std::make_unique<HidingLoader>(std::set<std::string>{"nvmlDeviceGetUUID"}));
  source.Start();
  EXPECT_EQ(SampleOf(source).size(), 0U);
  EXPECT_EQ(source.State().state, "unavailable");
  EXPECT_THAT(source.State().reason, HasSubstr("lacks nvmlDeviceGetUUID"));
}

TEST(Nvml, WithoutADriverTheStateSaysSoBeforeAnyJob) {
  Nvml source({"/nowhere/libnvidia-ml.so.1"});
  EXPECT_EQ(source.State().state, "absent");
  EXPECT_THAT(source.State().reason, HasSubstr("no NVIDIA driver (/nowhere/libnvidia-ml.so.1: cannot open"));
  source.Start();
  EXPECT_EQ(SampleOf(source).size(), 0U);
  source.Stop();
  EXPECT_EQ(source.State().state, "absent");
}

TEST(Nvml, AnInitThatFailsNamesTheCauseAndTheNextStep) {
  for (const auto& [code, next_step] : std::map<std::string, std::string>{
           {"9", "kernel module"}, {"18", "different versions"}, {"4", "/dev/nvidiactl"}, {"999", "nvidia-smi"}}) {
    const StandInEnvironment environment(Variables{{"NVML_STAND_IN_INIT", code}});
    Nvml source({NVML_STAND_IN});
    source.Start();
    EXPECT_EQ(SampleOf(source).size(), 0U);
    EXPECT_EQ(source.State().state, "unavailable");
    EXPECT_THAT(source.State().reason, HasSubstr("(NVML error " + code + ")"));
    EXPECT_THAT(source.State().next_step, HasSubstr(next_step));
  }
}

TEST(Nvml, NoGpuAndGpusThatAreWithheldAreStates) {
  {
    const StandInEnvironment environment(Variables{{"NVML_STAND_IN_GPUS", "0"}});
    Nvml source({NVML_STAND_IN});
    source.Start();
    EXPECT_EQ(SampleOf(source).size(), 0U);
    EXPECT_EQ(source.State().reason, "NVML finds no GPU");
  }
  const StandInEnvironment environment(Variables{{"NVML_STAND_IN_FAIL", "nvmlDeviceGetHandleByIndex=15"}});
  Nvml source({NVML_STAND_IN});
  source.Start();
  EXPECT_EQ(source.State().reason, "GPU 0: GPU is lost (NVML error 15); GPU 1: GPU is lost (NVML error 15)");
}

TEST(Nvml, ItIsClosedWithTheLastJobAndOpenedAgainWithTheNext) {
  Nvml source({NVML_STAND_IN});
  EXPECT_EQ(source.State().state, "idle");
  for (int job = 0; job < 3; ++job) {
    source.Start();
    EXPECT_EQ(SampleOf(source)("nvml.lost", kGpu0), 0);
    source.Stop();
    EXPECT_EQ(SampleOf(source).size(), 0U);
    EXPECT_EQ(source.State().state, "idle");
  }
}

}  // namespace
}  // namespace stepscope
