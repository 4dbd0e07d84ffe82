// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/inner_tids.h"

#include <gtest/gtest.h>

#include "daemon/ingest/peer_process.h"

namespace stepscope {
namespace {

class FakeClock final : public Clock {
 public:
  NodeTime Node() const override { return node; }
  WallTime Wall() const override { return {}; }
  NodeTime node{100 * kNsPerSecond};
};

constexpr ProcessKey kProcess{Pid{5000}, 77};

TEST(InnerTids, AThreadIsKnownForAWhileAfterItsEnd) {
  FakeClock clock;
  InnerTids tids(&clock, [] {});
  tids.Began(kProcess, 3, 5003);
  tids.Ended(kProcess, 5003);
  EXPECT_EQ(tids.Host(kProcess, 3), 5003);
  clock.node.ns += InnerTids::kKeptNs + 1;
  tids.Began(kProcess, 4, 5004);
  EXPECT_EQ(tids.Host(kProcess, 3), std::nullopt);
  EXPECT_EQ(tids.Host(kProcess, 4), 5004);
}

TEST(InnerTids, AnIdUsedAgainMeansTheLaterThread) {
  FakeClock clock;
  InnerTids tids(&clock, [] {});
  tids.Began(kProcess, 3, 5003);
  tids.Ended(kProcess, 5003);
  tids.Began(kProcess, 3, 40'000);
  clock.node.ns += InnerTids::kKeptNs + 1;
  tids.Began(kProcess, 4, 5004);
  EXPECT_EQ(tids.Host(kProcess, 3), 40'000) << "the earlier one's end takes nothing from it";
}

TEST(InnerTids, AProcessEndsWithItsThreadsAndAPidUsedAgainIsAnother) {
  FakeClock clock;
  InnerTids tids(&clock, [] {});
  const ProcessKey later{kProcess.pid, 99};
  tids.Began(kProcess, 1, 5000);
  tids.Began(kProcess, 2, 5001);
  tids.Began(later, 1, 5002);
  tids.Ended(kProcess);
  clock.node.ns += InnerTids::kKeptNs + 1;
  tids.Began(later, 2, 5003);
  EXPECT_EQ(tids.Host(kProcess, 1), std::nullopt);
  EXPECT_EQ(tids.Host(kProcess, 2), std::nullopt);
  EXPECT_EQ(tids.Host(later, 1), 5002);
}

PeerProcess NestedPeer() {
  PeerProcess peer;
  peer.key = kProcess;
  peer.own_pid_namespace = true;
  return peer;
}

TEST(HostTids, TheKernelsWordOnAThreadThatIsGone) {
  FakeClock clock;
  InnerTids announced(&clock, [] {});
  announced.Began(kProcess, 3, 40'003);
  HostTids tids(NestedPeer(), 1, &announced);
  EXPECT_EQ(tids.Of(1), 5000);
  EXPECT_EQ(tids.Of(3), 40'003);
  announced.Began(kProcess, 3, 40'007);
  EXPECT_EQ(tids.Of(3), 40'007) << "the id was used again";
}

TEST(HostTids, AnAnnouncementNotReadYetIsWaitedFor) {
  FakeClock clock;
  InnerTids announced(&clock, [&] { announced.Began(kProcess, 3, 40'003); });
  HostTids tids(NestedPeer(), 1, &announced);
  EXPECT_EQ(tids.Of(3), 40'003);
}

TEST(HostTids, AThreadNobodyAnnouncedHasNoLaneOfAnothers) {
  FakeClock clock;
  InnerTids announced(&clock, [] {});
  HostTids tids(NestedPeer(), 1, &announced);
  EXPECT_EQ(tids.Of(3), -3);
  announced.Began(kProcess, 3, 40'003);
  EXPECT_EQ(tids.Of(3), 40'003);
}

TEST(HostTids, InTheHostsNamespaceIdsAreWhatTheyAre) {
  FakeClock clock;
  InnerTids announced(&clock, [] {});
  announced.Began(kProcess, 3, 40'003);
  PeerProcess peer = NestedPeer();
  peer.own_pid_namespace = false;
  HostTids tids(peer, 1, &announced);
  EXPECT_EQ(tids.Of(3), 3);
}

}  // namespace
}  // namespace stepscope
