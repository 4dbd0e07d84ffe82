// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/session_park.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

#include "storage/keys.h"
#include "tests/unit/ingest/test_agent.h"
#include "tests/unit/pipeline/temp_store.h"

namespace stepscope {
namespace {

using ::stepscope::testing::TestAgent;

unique_fd Duplicate(int fd) { return unique_fd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

/// Keeps descriptors as a service manager does, over any number of daemons.
class FakeFdStore final : public FdStore {
 public:
  std::vector<KeptFd> Take() override {
    std::vector<KeptFd> all;
    for (const KeptFd& one : kept) all.push_back({one.name, Duplicate(one.fd.get())});
    return all;
  }
  bool Keep(const std::string& name, int fd) override {
    kept.push_back({name, Duplicate(fd)});
    return true;
  }
  void Remove(const std::string& name) override {
    std::erase_if(kept, [&](const KeptFd& one) { return one.name == name; });
  }
  std::vector<KeptFd> kept;
};

class SessionParkTest : public ::testing::Test {
 protected:
  SessionParkTest() { PutRun("a run"); }
  void PutRun(const std::string& value) {
    Seal seal;
    seal.meta.push_back({"run", RunMetaId(kRun), value});
    EXPECT_TRUE(store_->Commit(seal).ok());
  }
  SessionBirth BirthOf(const TestAgent& agent, ProcessKey process) {
    const std::string text = agent.HelloText();
    auto hello = ParseHello(std::as_bytes(std::span(text)));
    hello->facts["RANK"] = "3";
    auto file = RingFile::Open(Duplicate(agent.file()), agent.session(), TestAgent::kFileBytes);
    PeerProcess peer;
    peer.key = process;
    peer.uid = 1000;
    peer.comm = "python";
    return {*std::move(hello), std::move(peer), *std::move(file), kRun, 7};
  }
  ProcessKey Self() const { return {Pid{getpid()}, *ReadStartTicks(Pid{getpid()})}; }
  ParkedSessions Restart() {
    auto taken = SessionPark(store_.get(), &fds_).Take();
    EXPECT_TRUE(taken.ok()) << taken.status();
    return *std::move(taken);
  }
  void PutPosition(const std::string& session) {
    Seal seal;
    seal.positions.push_back({session, 1, 0, 64, ""});
    ASSERT_TRUE(store_->Commit(seal).ok());
  }

  static constexpr RunId kRun{5};
  TempStore store_;
  FakeFdStore fds_;
  SessionPark park_{store_.get(), &fds_};
};

TEST_F(SessionParkTest, ASessionComesBackAsItWasKept) {
  const TestAgent agent('a');
  park_.Keep(BirthOf(agent, Self()));
  const ParkedSessions taken = Restart();
  ASSERT_EQ(taken.sessions.size(), 1u);
  const SessionBirth& session = taken.sessions[0];
  EXPECT_EQ(session.hello.session(), agent.session());
  EXPECT_EQ(session.hello.facts.at("RANK"), "3");
  EXPECT_EQ(session.run, kRun);
  EXPECT_EQ(session.process.key, Self());
  EXPECT_EQ(session.process.uid, 1000u);
  EXPECT_EQ(session.process.comm, "python");
  EXPECT_TRUE(session.process.pidfd.ok());
  EXPECT_EQ(session.clock_offset_ns, 7);
  EXPECT_EQ(taken.Processes(), (std::vector<std::pair<RunId, ProcessKey>>{{kRun, Self()}}));
}

TEST_F(SessionParkTest, AnotherProcessWithItsPidIsNotTakenForIt) {
  const TestAgent agent('a');
  ProcessKey before = Self();
  before.start_ticks -= 1;
  park_.Keep(BirthOf(agent, before));
  const ParkedSessions taken = Restart();
  ASSERT_EQ(taken.sessions.size(), 1u);
  EXPECT_FALSE(taken.sessions[0].process.pidfd.ok());
}

TEST_F(SessionParkTest, AForgottenSessionLeavesNothing) {
  const TestAgent agent('a');
  park_.Keep(BirthOf(agent, Self()));
  park_.Forget(agent.session());
  EXPECT_TRUE(fds_.kept.empty());
  EXPECT_TRUE(Restart().sessions.empty());
}

TEST_F(SessionParkTest, TheListenerIsHandedOn) {
  const unique_fd socket_fd(socket(AF_UNIX, SOCK_STREAM, 0));
  EXPECT_TRUE(park_.KeepListener(socket_fd.get()));
  EXPECT_TRUE(Restart().listener.ok());
  EXPECT_EQ(fds_.kept.size(), 1u);
}

TEST_F(SessionParkTest, FilesOfOthersAreLetGo) {
  const TestAgent one('a'), two('b');
  park_.Keep(BirthOf(one, Self()));
  park_.Keep(BirthOf(two, Self()));
  std::swap(fds_.kept[0].fd, fds_.kept[1].fd);
  fds_.kept.push_back({"stranger", Duplicate(one.file())});
  fds_.kept.push_back({"", Duplicate(one.file())});
  EXPECT_TRUE(Restart().sessions.empty());
  EXPECT_TRUE(fds_.kept.empty());
  EXPECT_TRUE(Restart().sessions.empty());
}

TEST_F(SessionParkTest, RecordsThatMakeNoSenseAreLetGo) {
  const TestAgent agent('a');
  park_.Keep(BirthOf(agent, Self()));
  for (const std::string& damaged : {std::string("\xff\xff\xff"), std::string("\x0a\x03xyz", 5)}) {
    fds_.kept.clear();
    park_.Keep(BirthOf(agent, Self()));
    Seal seal;
    seal.meta.push_back({"session", agent.session(), damaged});
    ASSERT_TRUE(store_->Commit(seal).ok());
    EXPECT_TRUE(Restart().sessions.empty());
    EXPECT_TRUE(fds_.kept.empty());
  }
}

TEST_F(SessionParkTest, TheSessionOfADeletedRunIsLetGo) {
  const TestAgent agent('a');
  park_.Keep(BirthOf(agent, Self()));
  PutRun("");
  EXPECT_TRUE(Restart().sessions.empty());
  EXPECT_TRUE(fds_.kept.empty());
}

TEST_F(SessionParkTest, WithoutItsFileOnlyALiveProcessIsWaitedFor) {
  const TestAgent gone('a'), lives('b');
  ProcessKey ended = Self();
  ended.start_ticks -= 1;
  park_.Keep(BirthOf(gone, ended));
  park_.Keep(BirthOf(lives, Self()));
  PutPosition(gone.session());
  PutPosition(lives.session());
  fds_.kept.clear();
  EXPECT_TRUE(Restart().sessions.empty());
  EXPECT_TRUE(store_->Positions(gone.session())->empty());
  EXPECT_EQ(store_->Positions(lives.session())->size(), 1u);
}

}  // namespace
}  // namespace stepscope
