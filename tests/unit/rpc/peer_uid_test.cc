// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/peer_uid.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace stepscope {
namespace {

constexpr char kHeader[] = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n";

/// A /proc/net with rows as the kernel prints them on a little-endian machine; 7461 is 1D25.
class PeerUidTest : public testing::Test {
 protected:
  PeerUidTest() : proc_(std::filesystem::path(testing::TempDir()) / ("peer_uid." + std::to_string(getpid()))) {
    std::filesystem::create_directories(proc_ / "net");
    Write("tcp", "");
    Write("tcp6", "");
  }
  ~PeerUidTest() override { std::filesystem::remove_all(proc_); }
  void Write(const std::string& table, const std::string& rows) { std::ofstream(proc_ / "net" / table) << kHeader << rows; }
  absl::StatusOr<uint32_t> Uid(const std::string& peer) { return PeerUid(peer, 7461, 77, proc_.string()); }

  std::filesystem::path proc_;
};

TEST_F(PeerUidTest, FindsTheClientsEndOfTheConnection) {
  Write("tcp",
        "   0: 0100007F:1D25 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 10 1 0 100 0 0 10 0\n"
        "   1: 0100007F:1D25 0100007F:C350 01 00000000:00000000 00:00000000 00000000    77        0 11 1 0 20 4 30 10 -1\n"
        "   2: 0100007F:C350 0100007F:1D25 01 00000000:00000000 00:00000000 00000000  1000        0 12 1 0 20 4 30 10 -1\n");
  EXPECT_EQ(*Uid("ipv4:127.0.0.1:50000"), 1000u);
}

TEST_F(PeerUidTest, AClosedOrOrphanedSocketIsNobody) {
  Write("tcp",
        "   0: 0100007F:C350 0100007F:1D25 06 00000000:00000000 03:00001000 00000000     0        0 0 3 0\n"
        "   1: 0100007F:C350 0100007F:1D25 04 00000000:00000000 00:00000000 00000000     0        0 0 1 0\n"
        "   2: 0100007F:C350 0100007F:1D25 01 00000000:00000000 00:00000000 00000000     0        0 0 1 0\n");
  EXPECT_EQ(Uid("ipv4:127.0.0.1:50000").status().code(), absl::StatusCode::kPermissionDenied);
}

TEST_F(PeerUidTest, AConnectionToAnotherPortIsAnotherConnection) {
  Write("tcp", "   0: 0100007F:C350 0100007F:1D26 01 00000000:00000000 00:00000000 00000000  1000        0 12 1 0\n");
  EXPECT_FALSE(Uid("ipv4:127.0.0.1:50000").ok());
}

TEST_F(PeerUidTest, FindsDualStackAndIpv6Sockets) {
  Write("tcp6",
        "   0: 0000000000000000FFFF00000100007F:C350 0000000000000000FFFF00000100007F:1D25 01 00000000:00000000 00:00000000 "
        "00000000 "
        "1001 0 12 1 0\n"
        "   1: 00000000000000000000000001000000:C351 00000000000000000000000001000000:1D25 01 00000000:00000000 00:00000000 "
        "00000000 "
        "1002 0 13 1 0\n");
  EXPECT_EQ(*Uid("ipv4:127.0.0.1:50000"), 1001u);
  EXPECT_EQ(*Uid("ipv6:%5B::1%5D:50001"), 1002u);
}

TEST_F(PeerUidTest, TheUnixSocketAdmitsOnlyOurselves) { EXPECT_EQ(*Uid("unix:"), 77u); }

TEST_F(PeerUidTest, SaysWhatToDoWhenItCannotTell) {
  for (const char* peer :
       {"ipv4:127.0.0.1:50000", "ipv4:10.0.0.1:50000", "ipv4:127.0.0.1", "ipv6:[", "", "fd:7", "ipv4:127.0.0.1:99999999"}) {
    const auto uid = Uid(peer);
    ASSERT_EQ(uid.status().code(), absl::StatusCode::kPermissionDenied) << peer;
    EXPECT_NE(std::string(uid.status().message()).find("control socket"), std::string::npos);
  }
}

}  // namespace
}  // namespace stepscope
