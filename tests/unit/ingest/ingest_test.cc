// SPDX-License-Identifier: Apache-2.0

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <filesystem>
#include <thread>

#include "tests/unit/ingest/ingest_fixture.h"
#include "tests/unit/ingest/ring_bytes.h"
#include "tests/unit/ingest/test_agent.h"

namespace stepscope {
namespace {

using ::stepscope::testing::FakePipeline;
using ::stepscope::testing::HelloAnswer;
using ::stepscope::testing::IngestFixture;
using ::stepscope::testing::Now;
using ::stepscope::testing::PushClient;
using ::stepscope::testing::RingBytesBuilder;
using ::stepscope::testing::TestAgent;

/// First records of a ring: its thread and the names the tests use.
RingBytesBuilder Opening(const std::string& name = "span") {
  return RingBytesBuilder().Thread(gettid(), "worker", Now()).Name(2, name);
}
std::string Spans(int count) {
  RingBytesBuilder bytes;
  for (int i = 0; i < count; ++i) bytes.Begin(2, Now()).End(Now());
  return bytes.str();
}

class IngestTest : public IngestFixture {
 protected:
  /// Runs `life` in a child process; returns its pid.
  template <typename Life>
  pid_t Child(Life life) {
    const pid_t pid = fork();
    if (pid == 0) {
      life();
      _exit(0);
    }
    return pid;
  }
  /// A child that has said hello and got its answer before this returns, and then waits to be killed.
  template <typename Life>
  pid_t WaitingChild(Life life) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    const pid_t pid = Child([&] {
      life();
      (void)!write(ready[1], "x", 1);
      while (true) pause();
    });
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
  }
  bool WaitNoSessions() {
    for (int i = 0; i < 2000; ++i) {
      if (ingest_->Stats().sessions == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return false;
  }
};

TEST_F(IngestTest, PushedRowsAreAcknowledgedOnceTheyAreStoredNotBefore) {
  TestAgent agent('a');
  agent.Beat();
  const HelloAnswer answer = agent.Hello(options_.socket_path, std::string("RANK=3\0", 7));
  ASSERT_TRUE(answer.arrived);
  ASSERT_EQ(answer.reply.status, STEPSCOPE_HELLO_OK);
  EXPECT_EQ(jobs_.facts_seen.at("RANK"), "3");
  EXPECT_TRUE(answer.positions.empty());
  PushClient client(agent.TakeConnection(), answer.nonce());
  pipeline_.Hold();
  const std::string first = Opening().str() + Spans(3), second = Spans(2);
  const size_t before = pipeline_.delivered();
  ASSERT_TRUE(client.Push(1, 0, first));
  ASSERT_TRUE(client.Push(1, first.size(), second));
  ASSERT_TRUE(pipeline_.Wait([&](const FakePipeline& p) { return p.delivered() >= before + 2; }));
  std::atomic<bool> released = false, acked_early = false;
  std::thread reader([&] {
    ASSERT_TRUE(client.WaitAck(1, 1));
    acked_early = !released;
    ASSERT_TRUE(client.WaitAck(1, first.size() + second.size()) || client.replies() == 1);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // room for a wrong acknowledgement to arrive
  released = true;
  EXPECT_TRUE(pipeline_.spans.empty());
  pipeline_.Release();
  client.CloseWrites();
  reader.join();
  EXPECT_FALSE(acked_early);
  EXPECT_EQ(pipeline_.Count("span"), 5u);
  EXPECT_EQ(pipeline_.unplaceable, 0u);
  EXPECT_EQ(pipeline_.spans[0].tid, gettid());
  EXPECT_EQ(pipeline_.spans[0].pid, getpid());
  EXPECT_NEAR(static_cast<double>(pipeline_.spans[0].start_ns), static_cast<double>(Now()), 20e9);
}

TEST_F(IngestTest, BytesPushedTwiceAreStoredOnceAndHolesAreRefused) {
  TestAgent agent('a');
  agent.Beat();
  const HelloAnswer answer = agent.Hello(options_.socket_path);
  PushClient client(agent.TakeConnection(), answer.nonce());
  const std::string first = Opening().str() + Spans(3), second = Spans(2);
  const uint64_t middle = first.size(), end = first.size() + second.size();
  ASSERT_TRUE(client.Push(1, 0, first));
  ASSERT_TRUE(client.WaitAck(1, middle));
  ASSERT_TRUE(client.Push(1, 0, first + second));  // its front is known
  ASSERT_TRUE(client.WaitAck(1, end));
  ASSERT_TRUE(client.Push(1, 0, first));  // all of it is known: acknowledged again
  ASSERT_TRUE(client.WaitAck(1, end));
  EXPECT_EQ(pipeline_.Count("span"), 5u);
  ASSERT_TRUE(client.Push(1, end + 16, Spans(1)));
  EXPECT_FALSE(client.WaitAck(1, end + 1));
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(pipeline_.Count("span"), 5u);
  EXPECT_EQ(ingest_->Stats().rejected.at("hole"), 1u);
}

TEST_F(IngestTest, AReconnectGoesOnFromTheStoredPosition) {
  TestAgent agent('a');
  agent.Beat();
  HelloAnswer answer = agent.Hello(options_.socket_path);
  const std::string first = Opening().str() + Spans(3), second = Spans(2), third = Spans(4);
  {
    PushClient client(agent.TakeConnection(), answer.nonce());
    ASSERT_TRUE(client.Push(1, 0, first));
    ASSERT_TRUE(client.WaitAck(1, first.size()));
    pipeline_.Hold();
    const size_t before = pipeline_.delivered();
    ASSERT_TRUE(client.Push(1, first.size(), second));
    ASSERT_TRUE(pipeline_.Wait([&](const FakePipeline& p) { return p.delivered() > before; }));
  }
  answer = agent.Hello(options_.socket_path);
  ASSERT_EQ(answer.positions.size(), 1u);
  EXPECT_EQ(answer.positions[0].position, first.size()) << "what is on its way is not stored";
  PushClient client(agent.TakeConnection(), answer.nonce());
  ASSERT_TRUE(client.Push(1, first.size(), second + third));
  const size_t before = pipeline_.delivered();
  ASSERT_TRUE(pipeline_.Wait([&](const FakePipeline& p) { return p.delivered() >= before; }));
  pipeline_.Release();
  ASSERT_TRUE(client.WaitAck(1, first.size() + second.size() + third.size()));
  EXPECT_EQ(pipeline_.Count("span"), 9u);
}

TEST_F(IngestTest, ARestartedDaemonTakesUpOpenSpansNamesAndPositions) {
  TestAgent agent('a');
  agent.Beat();
  HelloAnswer answer = agent.Hello(options_.socket_path);
  const std::string first = Opening("before").Begin(2, Now()).TokenBegin(9, 2, Now()).str();
  {
    PushClient client(agent.TakeConnection(), answer.nonce());
    ASSERT_TRUE(client.Push(1, 0, first));
    ASSERT_TRUE(client.WaitAck(1, first.size()));
  }
  ingest_.reset();
  StartDaemon();
  answer = agent.Hello(options_.socket_path);
  ASSERT_TRUE(answer.arrived);
  ASSERT_EQ(answer.positions.size(), 1u);
  EXPECT_EQ(answer.positions[0].position, first.size());
  PushClient client(agent.TakeConnection(), answer.nonce());
  const std::string second = RingBytesBuilder().End(Now()).str(), other = RingBytesBuilder().TokenEnd(9, Now()).str();
  ASSERT_TRUE(client.Push(1, first.size(), second));
  ASSERT_TRUE(client.Push(2, 0, other));
  ASSERT_TRUE(client.WaitAck(2, other.size()));
  EXPECT_EQ(pipeline_.Count("before"), 2u);
}

TEST_F(IngestTest, TokensPairAcrossRingsWhateverArrivesFirst) {
  TestAgent agent('a');
  agent.Beat();
  const HelloAnswer answer = agent.Hello(options_.socket_path);
  PushClient client(agent.TakeConnection(), answer.nonce());
  const uint64_t begin = Now(), end = Now();
  const std::string ends = RingBytesBuilder().Thread(gettid(), "b", end).TokenEnd(5, end).str();
  const std::string begins = Opening("token").TokenBegin(5, 2, begin).str();
  ASSERT_TRUE(client.Push(2, 0, ends));
  ASSERT_TRUE(client.WaitAck(2, ends.size()));
  EXPECT_EQ(pipeline_.Count("token"), 0u);
  ASSERT_TRUE(client.Push(1, 0, begins));
  ASSERT_TRUE(client.WaitAck(1, begins.size()));
  EXPECT_EQ(pipeline_.Count("token"), 1u);
}

TEST_F(IngestTest, AKilledProcessLosesNothingItCommitted) {
  const pid_t pid = WaitingChild([&] {
    auto* agent = new TestAgent('k');
    agent->Beat();
    agent->Hello(options_.socket_path);
    agent->Write(1, Opening("done").str() + Spans(500) + RingBytesBuilder().Name(3, "open").Begin(3, Now()).str());
    agent->Write(2, Opening("done").str() + Spans(500));
    agent->ring(1).lost_records = 4;
    agent->ring(1).lost_bytes = 64;
    agent->ring(1).lost_first_ticks = agent->ring(1).lost_last_ticks = Now();
    agent->header().no_ring_lost = 2;
    agent->header().no_ring_first_ticks = agent->header().no_ring_last_ticks = Now();
  });
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  ASSERT_TRUE(WaitNoSessions());
  EXPECT_EQ(pipeline_.Count("done"), 1000u);
  ASSERT_EQ(pipeline_.Count("open"), 1u);
  const auto open = std::ranges::find(pipeline_.spans, "open", &testing::StoredSpan::name);
  EXPECT_EQ(open->flags, kSpanCut);
  EXPECT_EQ(open->pid, pid);
  EXPECT_EQ(pipeline_.Lost(LossReason::kRingFull), 4);
  EXPECT_EQ(pipeline_.Lost(LossReason::kNoRing), 2);
  EXPECT_FALSE(store_.Knows(std::string(16, 'k'))) << "an ended session's positions are forgotten";
  EXPECT_EQ(pipeline_.unplaceable, 0u);
}

TEST_F(IngestTest, WhatWasPushedIsNotSalvagedAgain) {
  TestAgent agent('p');
  agent.Beat();
  const std::string first = Opening().str() + Spans(10), second = Spans(10);
  agent.Write(1, first);
  agent.Write(1, second);
  const HelloAnswer answer = agent.Hello(options_.socket_path);
  PushClient client(agent.TakeConnection(), answer.nonce());
  ASSERT_TRUE(client.Push(1, 0, first));
  ASSERT_TRUE(client.WaitAck(1, first.size()));
  // The sender falls silent: the daemon reads the rest itself, and only the rest.
  ASSERT_TRUE(pipeline_.WaitSpans(20));
  ASSERT_TRUE(client.Push(1, first.size(), second));
  ASSERT_TRUE(client.WaitAck(1, first.size() + second.size()));
  EXPECT_EQ(pipeline_.Count("span"), 20u);
}

// What fills slowly is taken from the ring, and acknowledged only once the agent asks by pushing it.
TEST_F(IngestTest, ARingThatFillsSlowlyIsReadWhileItsSenderLives) {
  TestAgent agent('q');
  std::atomic<bool> over = false;
  std::thread heart([&] {
    for (; !over; std::this_thread::sleep_for(std::chrono::milliseconds(10))) agent.Beat();
  });
  const HelloAnswer answer = agent.Hello(options_.socket_path);
  PushClient client(agent.TakeConnection(), answer.nonce());
  const std::string first = Opening().str() + Spans(1), second = Spans(2), third = Spans(3);
  ASSERT_TRUE(client.Push(1, 0, first));
  ASSERT_TRUE(client.WaitAck(1, first.size()));
  const int replies = client.replies();
  agent.Write(1, first + second);
  ASSERT_TRUE(pipeline_.WaitSpans(3));
  pipeline_.Hold();
  agent.Write(1, third);
  ASSERT_TRUE(pipeline_.Wait([&, before = pipeline_.delivered()](const FakePipeline& p) { return p.delivered() > before; }));
  ASSERT_TRUE(client.Push(1, first.size(), second + third));  // known, and not stored yet
  EXPECT_EQ(client.replies(), replies);
  pipeline_.Release();
  EXPECT_TRUE(client.WaitAck(1, first.size() + second.size() + third.size()));
  EXPECT_EQ(pipeline_.Count("span"), 6u);
  over = true;
  heart.join();
}

TEST_F(IngestTest, AnAgentIsToldToPushSeldom) {
  TestAgent agent('i');
  agent.Beat();
  const HelloAnswer answer = agent.Hello(options_.socket_path);
  PushClient client(agent.TakeConnection(), answer.nonce());
  const std::string first = Opening().str() + Spans(1);
  ASSERT_TRUE(client.Push(1, 0, first));
  ASSERT_TRUE(client.WaitAck(1, first.size()));
  EXPECT_EQ(client.push_interval_ms(), 10000u);
}

TEST_F(IngestTest, AProcessWithoutASenderIsReadByTheDaemon) {
  TestAgent agent('n');
  ASSERT_TRUE(agent.Hello(options_.socket_path).arrived);
  agent.Write(1, Opening().str() + Spans(7));
  EXPECT_TRUE(pipeline_.WaitSpans(7));
  agent.Write(1, Spans(2));
  EXPECT_TRUE(pipeline_.WaitSpans(9));
}

TEST_F(IngestTest, AChildThatIsGoneBeforeItsHelloIsReadIsStillStored) {
  TestAgent parent('x');
  jobs_.Gate(true);
  ASSERT_TRUE(parent.SayHello(options_.socket_path));
  ASSERT_TRUE(jobs_.WaitAsked(1));  // the ingest thread is busy with it from here on
  const pid_t pid = Child([&] {
    TestAgent agent('c');
    agent.Write(1, Opening("short").str() + Spans(3));
    agent.SayHello(options_.socket_path);
    _exit(0);
  });
  waitpid(pid, nullptr, 0);
  jobs_.Gate(false);
  ASSERT_TRUE(pipeline_.Wait([](const FakePipeline& p) { return p.Count("short") == 3; }));
}

TEST_F(IngestTest, ARingReusedByANewThreadStartsAtZeroAndOldPushesAreIgnored) {
  TestAgent agent('g');
  agent.Beat();
  const HelloAnswer answer = agent.Hello(options_.socket_path);
  PushClient client(agent.TakeConnection(), answer.nonce());
  const std::string old = Opening("old").Begin(2, Now()).str(), fresh = Opening("new").str() + Spans(2);
  ASSERT_TRUE(client.Push(1, 0, old, 0));
  ASSERT_TRUE(client.WaitAck(1, old.size()));
  ASSERT_TRUE(client.Push(1, 0, fresh, 1));
  ASSERT_TRUE(client.WaitAck(1, fresh.size()));
  ASSERT_TRUE(client.Push(1, 0, old, 0));
  ASSERT_TRUE(client.WaitAck(1, fresh.size()));
  EXPECT_EQ(pipeline_.Count("old"), 1u) << "left open by the thread before: cut";
  EXPECT_EQ(pipeline_.Count("new"), 2u);
  ASSERT_TRUE(client.Push(1, 64, fresh, 2));
  EXPECT_FALSE(client.WaitAck(1, 1 << 20));
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(IngestTest, RowsAnotherStoreTookAreReportedAsALossNotAskedFor) {
  TestAgent agent('l');
  agent.Beat();
  const std::string gone = Opening().str() + Spans(10), rest = Spans(3);
  agent.Write(1, gone);
  agent.ring(1).tail = gone.size();
  const HelloAnswer answer = agent.Hello(options_.socket_path);
  ASSERT_EQ(answer.positions.size(), 1u);
  EXPECT_EQ(answer.positions[0].position, gone.size());
  PushClient client(agent.TakeConnection(), answer.nonce());
  ASSERT_TRUE(client.Push(1, gone.size(), rest));
  ASSERT_TRUE(client.WaitAck(1, gone.size() + rest.size()));
  ASSERT_TRUE(ingest_->FlushSessions({7}).ok());
  EXPECT_EQ(pipeline_.Count("(unknown)"), 3u);
  EXPECT_EQ(pipeline_.Lost(LossReason::kDaemonAway), -1);
}

TEST_F(IngestTest, FlushReturnsOnceEverythingCommittedIsStored) {
  TestAgent agent('f');
  agent.Beat();
  ASSERT_TRUE(agent.Hello(options_.socket_path).arrived);
  agent.Write(1, Opening().str() + Spans(100));
  const absl::Status flushed = ingest_->FlushSessions({7});
  EXPECT_TRUE(flushed.ok()) << flushed;
  EXPECT_EQ(pipeline_.Count("span"), 100u);
  EXPECT_TRUE(ingest_->FlushSessions({8}).ok());
  pipeline_.Hold();
  agent.Write(1, Spans(1));
  EXPECT_EQ(ingest_->FlushSessions({7}, 50 * kNsPerMillisecond).code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(IngestTest, NotesAndFactsReachTheirPlaces) {
  TestAgent agent('e');
  agent.Beat();
  ASSERT_TRUE(agent.Hello(options_.socket_path).arrived);
  agent.Write(1, Opening("lr").Info(2, Now(), "3e-4").str());
  ASSERT_TRUE(ingest_->FlushSessions({7}).ok());
  EXPECT_EQ(jobs_.job_facts.at("lr"), "3e-4");
  const auto process = std::ranges::find_if(pipeline_.notes, [](const auto& n) { return n.key.kind == EntityKind::kProcess; });
  ASSERT_NE(process, pipeline_.notes.end());
  EXPECT_EQ(process->rank, 3);
  EXPECT_FALSE(process->name.empty());
  const auto thread = std::ranges::find_if(pipeline_.notes, [](const auto& n) { return n.key.kind == EntityKind::kThread; });
  ASSERT_NE(thread, pipeline_.notes.end());
  EXPECT_EQ(thread->name, "worker");
}

TEST_F(IngestTest, AStreamWithoutAKnownNonceIsRefused) {
  TestAgent agent('u');
  ASSERT_TRUE(agent.Hello(options_.socket_path).arrived);
  PushClient client(agent.TakeConnection(), std::string(16, 'z'));
  EXPECT_FALSE(client.WaitAck(1, 1));
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(IngestTest, PushesThatMakeNoSenseEndTheStream) {
  TestAgent agent('m');
  const HelloAnswer answer = agent.Hello(options_.socket_path);
  PushClient client(agent.TakeConnection(), answer.nonce());
  ASSERT_TRUE(client.Push(STEPSCOPE_RING_SLOTS, 0, Spans(1)));
  EXPECT_FALSE(client.WaitAck(1, 1));
  EXPECT_EQ(client.Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(IngestTest, BrokenRingsAreCountedAndTheOthersSurvive) {
  TestAgent agent('b');
  ASSERT_TRUE(agent.Hello(options_.socket_path).arrived);
  agent.Write(1, Opening().str() + std::string(64, '\xee'));
  agent.Write(2, Opening().str() + Spans(3));
  agent.Open(3, 1);
  agent.ring(3).data_offset = 1ull << 40;
  agent.ring(3).head = 4096;
  ASSERT_TRUE(ingest_->FlushSessions({7}).ok());
  EXPECT_EQ(pipeline_.Count("span"), 3u);
  EXPECT_EQ(ingest_->Stats().malformed, 2u);
}

TEST_F(IngestTest, AnotherProcessCannotTakeASessionOver) {
  TestAgent agent('s');
  ASSERT_TRUE(agent.Hello(options_.socket_path).arrived);
  const pid_t pid = Child([&] {
    const HelloAnswer answer = agent.Hello(options_.socket_path);
    _exit(answer.arrived ? static_cast<int>(answer.reply.status) : 99);
  });
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), STEPSCOPE_HELLO_DENIED);
}

}  // namespace
}  // namespace stepscope
