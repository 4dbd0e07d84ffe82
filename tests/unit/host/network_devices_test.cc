// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/network_devices.h"

#include <gtest/gtest.h>

#include "daemon/collector/host/lustre.h"
#include "tests/unit/host/device_trees.h"

namespace stepscope {
namespace {

TEST(NetworkDevices, WordsBecomeBytesAndOtherCountersKeepTheirNames) {
  const FakeTree tree;
  WriteNetworkDevices(tree);
  NetworkDevices source({tree.root()});
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("ib.port_xmit_bytes_total", "mlx5_0/1"), 4000);
  EXPECT_EQ(values("ib.port_rcv_bytes_total", "mlx5_0/1"), 8000);
  EXPECT_EQ(values("ib.vl15_dropped_total", "mlx5_0/1"), 3);
  EXPECT_EQ(values("ib.out_of_sequence_total", "mlx5_0/1"), 4);
  EXPECT_FALSE(values.Has("ib.symbol_error_total", "mlx5_0/1")) << "the port cannot count it";
  EXPECT_FALSE(values.Has("ib.lifespan_total", "mlx5_0/1")) << "a setting";
}

TEST(NetworkDevices, AnEfaDeviceIsKnownByItsDriverWhateverItIsCalled) {
  const FakeTree tree;
  WriteNetworkDevices(tree);
  NetworkDevices source({tree.root()});
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("efa.tx_bytes_total", "rdmap16s27/1"), 123456789012.0);
  EXPECT_EQ(values("efa.retrans_bytes_total", "rdmap16s27/1"), 4096);
  EXPECT_EQ(values("efa.submitted_cmds_total", "rdmap16s27"), 77);
}

TEST(NetworkDevices, APortThatIsDownIsSaidToBe) {
  const FakeTree tree;
  WriteNetworkDevices(tree);
  NetworkDevices source({tree.root()});
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values("ib.port_active", "mlx5_0/1"), 1);
  EXPECT_EQ(values("ib.port_active", "mlx5_0/2"), 0);
}

TEST(NetworkDevices, WithoutADeviceTheStateIsAbsentAndOneThatComesLaterIsRead) {
  const FakeTree tree;
  NetworkDevices source({tree.root()});
  source.Start();
  EXPECT_EQ(SampleOf(source).size(), 0U);
  EXPECT_EQ(source.State().state, "absent");
  EXPECT_EQ(source.State().reason, "no InfiniBand, RoCE or EFA device in " + tree.root() + "/sys/class/infiniband");
  WriteNetworkDevices(tree);
  EXPECT_GT(SampleOf(source).size(), 0U);
  EXPECT_EQ(source.State().state, "on");
  EXPECT_EQ(source.State().numbers.at("devices"), "2");
}

TEST(Lustre, CallsAreCountedAndSumsAreInTheirUnit) {
  const FakeTree tree;
  WriteLustre(tree);
  Lustre source({tree.root()});
  const KeptValues values = SampleOf(source);
  const std::string client = "fsx-ffff8881";
  EXPECT_EQ(values("lustre.read_bytes_calls_total", client), 4131);
  EXPECT_EQ(values("lustre.read_bytes_total", client), 4299161600.0);
  EXPECT_EQ(values("lustre.open_calls_total", client), 25);
  EXPECT_EQ(values("lustre.fsync_ns_total", client), 1500e3);
  EXPECT_EQ(values.size(), 7U) << "the time of the snapshot is none";
}

TEST(Lustre, OldClientsShowTheSameInProc) {
  const FakeTree tree;
  tree.Write("/proc/fs/lustre/llite/scratch-1/stats", "open 25 samples [regs]\n");
  Lustre source({tree.root()});
  EXPECT_EQ(SampleOf(source)("lustre.open_calls_total", "scratch-1"), 25);
}

TEST(Lustre, WithoutAClientTheStateIsUnavailable) {
  const FakeTree tree;
  Lustre source({tree.root()});
  source.Start();
  EXPECT_EQ(SampleOf(source).size(), 0U);
  EXPECT_EQ(source.State().state, "absent");
  EXPECT_EQ(source.State().reason, "no Lustre client is mounted");
}

}  // namespace
}  // namespace stepscope
