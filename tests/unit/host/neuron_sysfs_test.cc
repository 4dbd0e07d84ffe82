// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/neuron_sysfs.h"

#include <gtest/gtest.h>

#include "base/proc_stat.h"
#include "tests/unit/host/device_trees.h"

namespace stepscope {
namespace {

TEST(NeuronSysfs, ADeviceHasMemoryEccAndPower) {
  const FakeTree tree;
  WriteNeuron(tree, "2.30.2.0");
  NeuronSysfs source({tree.root()});
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("neuron.host_memory_tensors_bytes", "neuron0"), 4096) << "the present amount, not the peak";
  EXPECT_EQ(values("neuron.mem_ecc_uncorrected_total", "neuron0"), 2);
  EXPECT_EQ(values("neuron.power_utilization_percent", "neuron0"), 45.75);
  EXPECT_FALSE(values.Has("neuron.sram_ecc_uncorrected_total", "neuron0"));
}

TEST(NeuronSysfs, ACoreHasExecutionsMemoryAndTimeInUse) {
  const FakeTree tree;
  WriteNeuron(tree, "2.30.2.0");
  NeuronSysfs source({tree.root()});
  const KeptValues values = SampleOf(source);
  const std::string core = "neuron0/core1";
  EXPECT_EQ(values("neuron.status_success_total", core), 1000);
  EXPECT_EQ(values("neuron.status_execute_completed_with_error_total", core), 3) << "a name of older drivers";
  EXPECT_EQ(values("neuron.device_memory_bytes", core), 1048576);
  EXPECT_EQ(values("neuron.device_memory_model_code_bytes", core), 65536);
  EXPECT_EQ(values("neuron.time_in_use_ns_total", core), 2500e3);
  EXPECT_EQ(values("neuron.flop_count_total", core), 18446744073709551615.0) << "a plain file, as the guide has it";
  EXPECT_EQ(values("neuron.mm_active_cycles_total", "neuron0/core1/row1"), 200);
  EXPECT_EQ(values("neuron.idle_cycles_total", "neuron0/core1/row0"), 3);
}

TEST(NeuronSysfs, PowerWithoutDataIsNoValue) {
  const FakeTree tree;
  WriteNeuron(tree, "2.30.2.0");
  for (const char* text : {"POWER_STATUS_NO_DATA,0,0,0,0\n", "POWER_STATUS_INVALID,1,2,3,4\n", "POWER_STATUS_VALID,1,2,3,nan\n",
                           "POWER_STATUS_VALID,1,2,3,-5\n", "POWER_STATUS_VALID,"}) {
    tree.Write("/sys/devices/virtual/neuron_device/neuron0/stats/power/utilization", text);
    NeuronSysfs source({tree.root()});
    EXPECT_FALSE(SampleOf(source).Has("neuron.power_utilization_percent", "neuron0")) << text;
  }
}

TEST(NeuronSysfs, StateSaysWhenCountersAreOnlyBookedAtTheEndOfAProcess) {
  for (const auto& [driver, is_live] : std::map<std::string, bool>{{"2.24.7.0", false},
                                                                   {"2.30.1", false},
                                                                   {"2.30.2", true},
                                                                   {"2.31", true},
                                                                   {"3.0.0", true},
                                                                   {"", false},
                                                                   {"2", false}}) {
    const FakeTree tree;
    WriteNeuron(tree, driver);
    NeuronSysfs source({tree.root()});
    source.Start();
    EXPECT_EQ(source.State().reason.empty(), is_live) << driver << ": " << source.State().reason;
    EXPECT_EQ(source.State().state, "on");
  }
}

TEST(NeuronSysfs, ACounterThatWentBackIsHandedOverAsItIs) {
  const FakeTree tree;
  WriteNeuron(tree, "2.30.2.0");
  NeuronSysfs source({tree.root()});
  SampleOf(source);
  tree.Write("/sys/devices/virtual/neuron_device/neuron0/neuron_core1/stats/status/success/total", "1\n");
  EXPECT_EQ(SampleOf(source)("neuron.status_success_total", "neuron0/core1"), 1);
}

TEST(NeuronSysfs, NothingIsWritten) {
  const FakeTree tree;
  WriteNeuron(tree, "2.30.2.0");
  const std::string device = tree.root() + "/sys/devices/virtual/neuron_device/neuron0";
  const auto before = std::filesystem::last_write_time(device + "/reset");
  NeuronSysfs source({tree.root()});
  source.Start();
  SampleOf(source);
  source.Stop();
  EXPECT_EQ(std::filesystem::last_write_time(device + "/reset"), before);
  EXPECT_EQ(ReadProcFile(device + "/neuron_core1/stats/status/success/total"), "1000\n");
}

TEST(NeuronSysfs, WithoutADriverTheStateIsUnavailable) {
  const FakeTree tree;
  NeuronSysfs source({tree.root()});
  source.Start();
  EXPECT_EQ(SampleOf(source).size(), 0U);
  EXPECT_EQ(source.State().state, "absent");
  EXPECT_NE(source.State().reason.find("no Neuron driver"), std::string::npos);
}

}  // namespace
}  // namespace stepscope
