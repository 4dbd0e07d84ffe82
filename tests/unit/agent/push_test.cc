// SPDX-License-Identifier: Apache-2.0
// The whole way from the C API in another process to a real gRPC server: exactly once, whatever happens to the server.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "push_server.h"
#include "ring_reader.h"

namespace stepscope::agent {
namespace {

class Push : public testing::Test {
 protected:
  Child Run(std::vector<std::string> arguments, std::map<std::string, std::string> environment = {}) {
    arguments.insert(arguments.begin(), STEPSCOPE_ANNOTATOR);
    environment.emplace("STEPSCOPE_SOCKET", socket_.path());
    return Child(arguments, environment);
  }

  // Checks every stored ring; the sums over all of them.
  RingContents Stored() {
    RingContents sums;
    for (const auto& [key, bytes] : store_.All()) {
      RingContents contents;
      ReadRecords(bytes, &contents);
      if (key.ring == 0) {
        sums.anchors += contents.anchors;
        continue;
      }
      sums.user_records += contents.user_records;
      sums.lost_told += contents.lost_told;
      for (size_t i = 0; i + 1 < contents.spans.size() && contents.lost_told == 0; ++i) {
        EXPECT_EQ(contents.spans[i].number + 1, contents.spans[i + 1].number);
      }
    }
    return sums;
  }

  // What the child says it lost; it must also say that its flush went through.
  uint64_t LostBy(const Child& child) {
    unsigned long long lost = 0;
    int flushed = 0;
    EXPECT_EQ(std::sscanf(child.output().c_str(), "lost %llu flushed %d", &lost, &flushed), 2) << child.output();
    EXPECT_EQ(flushed, 1);
    return lost;
  }

  AgentSocket socket_;
  PushStore store_;
};

TEST_F(Push, EveryRecordArrivesAndAFlushKnowsIt) {
  PushServer server(&socket_, &store_);
  Child child = Run({"steps", "4", "5000", "100", "10000"});
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(child.output(), "lost 0 flushed 1\n");
  RingContents stored = Stored();
  EXPECT_EQ(stored.user_records, 2u * 4 * 5000);
  EXPECT_GE(stored.anchors, 1u);
}

// More records than a ring holds: only acknowledgements make room.
TEST_F(Push, AcknowledgementsFreeTheRing) {
  PushServer server(&socket_, &store_);
  Child child = Run({"steps", "1", "60000", "200", "10000"}, {{"STEPSCOPE_RING_BYTES", "262144"}});
  EXPECT_EQ(child.Wait(), 0);
  RingContents stored = Stored();
  EXPECT_EQ(stored.user_records + LostBy(child), 2u * 60000);
  EXPECT_GT(stored.user_records * 16, 2u * 262144);
}

// A server that reads the rings itself asks for no pushes. What needs room is pushed all the same: a ring that fills, and those
// of threads that are gone.
TEST_F(Push, AskedToPushSeldomItStillMakesRoom) {
  PushServer server(&socket_, &store_, {.push_interval_ms = 3'600'000});
  Child child = Run({"steps", "2", "6000", "10000", "10000"}, {{"STEPSCOPE_RING_BYTES", "65536"}});
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(child.output(), "lost 0 flushed 1\n");
  EXPECT_EQ(Stored().user_records, 2u * 2 * 6000);
  EXPECT_LT(server.requests(), 60u) << "4 s at 100 ms would be 80 of them";
}

TEST_F(Push, AskedToPushSeldomRingsOfEndedThreadsAreUsedAgain) {
  PushServer server(&socket_, &store_, {.push_interval_ms = 3'600'000});
  Child child = Run({"generations", "10", "600"});  // more threads than there are rings
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(child.output(), "lost 0 flushed 1\n");
  EXPECT_EQ(Stored().user_records, 2u * 32 * 10);
}

TEST_F(Push, ServerDeathsNeitherLoseNorDouble) {
  auto server = std::make_unique<PushServer>(&socket_, &store_);
  Child child = Run({"steps", "3", "40000", "1000", "20000"});
  for (int death = 0; death < 5; ++death) {
    const uint64_t before = server->requests();
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (server->requests() < before + 2 && std::chrono::steady_clock::now() < give_up)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    server.reset();
    socket_.StopListening();
    socket_.ListenAgain();
    server = std::make_unique<PushServer>(&socket_, &store_);
  }
  EXPECT_EQ(child.Wait(), 0);
  RingContents stored = Stored();
  EXPECT_EQ(stored.user_records + LostBy(child), 2u * 3 * 40000);
  EXPECT_LE(stored.lost_told, LostBy(child)) << "the rest stands in the descriptors";
}

// Acknowledgements that never came: the same bytes come again and are cut at the stored position.
TEST_F(Push, UnacknowledgedBytesAreSentAgainAndCut) {
  auto server = std::make_unique<PushServer>(&socket_, &store_, PushServer::Behaviour{.acknowledge = false});
  Child child = Run({"steps", "1", "3000", "1000", "15000"});
  while (server->requests() < 2) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  server.reset();
  server = std::make_unique<PushServer>(&socket_, &store_);
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(child.output(), "lost 0 flushed 1\n");
  EXPECT_EQ(Stored().user_records, 2u * 3000);
}

TEST_F(Push, AStoppedAgentKeepsItsRecordsInTheRing) {
  PushServer server(&socket_, &store_, PushServer::Behaviour{.stop_at_once = true});
  Child child = Run({"steps", "1", "3000", "1000", "400"});
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(child.output(), "lost 0 flushed 0\n");
  EXPECT_LT(Stored().user_records, 2u * 3000);
}

TEST_F(Push, ARefusalIsAStateNotAnError) {
  PushServer server(&socket_, &store_, PushServer::Behaviour{.hello_status = STEPSCOPE_HELLO_DENIED});
  Child child = Run({"cost", "10", "2"});
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_NE(child.output().find("refused: the daemon denies this user; socket " + socket_.path()), std::string::npos)
      << child.output();
}

TEST_F(Push, RingsOfEndedThreadsAreUsedAgain) {
  PushServer server(&socket_, &store_);
  Child child = Run({"generations", "60"});
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(child.output(), "lost 0 flushed 1\n");
  EXPECT_EQ(Stored().user_records, 2u * 8 * 60);
  uint32_t generations = 0;
  for (const auto& [key, bytes] : store_.All()) generations = std::max(generations, key.generation);
  EXPECT_GT(generations, 0u);
}

}  // namespace
}  // namespace stepscope::agent
