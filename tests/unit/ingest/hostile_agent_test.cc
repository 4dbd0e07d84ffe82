// SPDX-License-Identifier: Apache-2.0
// What a process may do to the daemon once its hello was taken, or with the file of its hello: nothing that others notice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>

#include "tests/unit/ingest/fuse_file.h"
#include "tests/unit/ingest/ingest_fixture.h"
#include "tests/unit/ingest/ring_bytes.h"
#include "tests/unit/ingest/test_agent.h"

namespace stepscope {
namespace {

using ::stepscope::testing::ConnectTo;
using ::stepscope::testing::FakePipeline;
using ::stepscope::testing::FuseFile;
using ::stepscope::testing::HelloAnswer;
using ::stepscope::testing::IngestFixture;
using ::stepscope::testing::Now;
using ::stepscope::testing::PushClient;
using ::stepscope::testing::ReadAnswer;
using ::stepscope::testing::RingBytesBuilder;
using ::stepscope::testing::SendWithFiles;
using ::stepscope::testing::TestAgent;

size_t OpenFiles() {
  size_t count = 0;
  for (std::filesystem::directory_iterator fd("/proc/self/fd"), end; fd != end; ++fd) ++count;
  return count;
}

/// Resident bytes of this process.
int64_t Resident() {
  int64_t total = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

bool Eventually(const std::function<bool()>& holds) {
  for (int i = 0; i < 2000; ++i) {
    if (holds()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

class HostileAgentTest : public IngestFixture {
 protected:
  std::string HelloOf(TestAgent& agent, const std::function<void(stepscope_hello&)>& twist = [](auto&) {}) {
    std::string text = agent.HelloText();
    stepscope_hello hello;
    std::memcpy(&hello, text.data(), sizeof(hello));
    twist(hello);
    std::memcpy(text.data(), &hello, sizeof(hello));
    return text;
  }
  uint32_t Say(const std::string& bytes, const std::vector<int>& files) {
    const unique_fd connection = ConnectTo(options_.socket_path);
    const bool sent = SendWithFiles(connection.get(), bytes, files);
    const HelloAnswer answer = ReadAnswer(connection.get());
    EXPECT_TRUE(sent || answer.arrived) << "who is refused at once has its answer before it has spoken";
    return answer.reply.status;
  }
  /// An agent that keeps the rules, from its hello to its last row.
  void ExpectOthersGoOn() {
    static char id = 'A';
    TestAgent honest(id++);
    const std::string name = std::string("honest ") + id;
    honest.Beat();
    const HelloAnswer answer = honest.Hello(options_.socket_path);
    ASSERT_EQ(answer.reply.status, STEPSCOPE_HELLO_OK);
    PushClient client(honest.TakeConnection(), answer.nonce());
    const std::string rows = RingBytesBuilder().Thread(gettid(), "w", Now()).Name(2, name).Begin(2, Now()).End(Now()).str();
    ASSERT_TRUE(client.Push(1, 0, rows)) << client.Finish().error_message();
    EXPECT_TRUE(client.WaitAck(1, rows.size()));
    EXPECT_TRUE(pipeline_.Wait([&](const FakePipeline& p) { return p.Count(name) == 1; }));
  }
  /// A session whose sender is silent, so that the daemon reads its rings itself.
  HelloAnswer Silent(TestAgent& agent) { return agent.Hello(options_.socket_path); }
};

class FuseFileTest : public HostileAgentTest {};

TEST_F(FuseFileTest, AFileThatNeverAnswersHoldsNobodyUp) {
  FuseFile file(folder_ + "/fuse");
  if (!file.ok()) GTEST_SKIP() << "no FUSE can be mounted here";
  TestAgent agent('f');
  file.Hold();
  EXPECT_EQ(Say(agent.HelloText(), {file.fd()}), STEPSCOPE_HELLO_BAD_FILE);
  ExpectOthersGoOn();
  uint32_t status = STEPSCOPE_HELLO_BAD_FILE;
  for (int i = 0; i < 20 && status == STEPSCOPE_HELLO_BAD_FILE; ++i) status = Say(agent.HelloText(), {file.fd()});
  EXPECT_EQ(status, STEPSCOPE_HELLO_BUSY) << "nothing more is taken from that user";
  for (const uint32_t kind : file.Held()) EXPECT_EQ(kind, FUSE_FLUSH) << "the file is closed and nothing else";
  file.Release();
  EXPECT_TRUE(Eventually([&] { return Silent(agent).reply.status == STEPSCOPE_HELLO_OK; }));
  ExpectOthersGoOn();
}

TEST_F(HostileAgentTest, FilesOfEveryKindAreRefusedAndClosed) {
  TestAgent agent('k');
  ExpectOthersGoOn();
  const auto memfd = [](uint64_t bytes, int seals) {
    unique_fd fd(memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    if (seals != 0) fcntl(fd.get(), F_ADD_SEALS, seals);
    return fd;
  };
  constexpr uint64_t kTerabyte = uint64_t{1} << 40;
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
  const unique_fd huge = memfd(kTerabyte, kAll), unsealed = memfd(TestAgent::kFileBytes, 0), tiny = memfd(0, kAll);
  const unique_fd shm(open("/dev/shm", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)),
      disk(open(folder_.c_str(), O_TMPFILE | O_RDWR, 0600));
  const unique_fd zero(open("/dev/zero", O_RDONLY | O_CLOEXEC)), path(open("/", O_PATH | O_CLOEXEC)),
      self(open("/proc/self/mem", O_RDONLY));
  int pipes[2], pair[2];
  ASSERT_EQ(pipe2(pipes, O_CLOEXEC), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const unique_fd in(pipes[0]), out(pipes[1]), left(pair[0]), right(pair[1]);
  const size_t files = OpenFiles();
  const int64_t resident = Resident();
  for (const unique_fd* fd : {&huge, &unsealed, &tiny, &shm, &disk, &zero, &path, &self, &in, &left}) {
    if (!fd->ok()) continue;  // no /dev/shm, or no O_TMPFILE there
    const uint64_t size = fd == &huge ? kTerabyte : TestAgent::kFileBytes;
    EXPECT_EQ(Say(HelloOf(agent, [&](auto& h) { h.file_bytes = size; }), {fd->get()}), STEPSCOPE_HELLO_BAD_FILE) << fd->get();
  }
  EXPECT_EQ(Say(agent.HelloText(), {agent.file(), in.get(), huge.get()}), STEPSCOPE_HELLO_BAD_MESSAGE);
  EXPECT_TRUE(Eventually([&] { return OpenFiles() <= files; })) << OpenFiles() << " open, before " << files;
  EXPECT_LT(Resident() - resident, 32 << 20);
  ExpectOthersGoOn();
}

TEST_F(HostileAgentTest, AnotherPidThanThatOfItsSocketIsDenied) {
  TestAgent agent('p');
  const int one = 1;
  socklen_t size = sizeof(one);
  int pidfd = -1;
  const unique_fd probe = ConnectTo(options_.socket_path);
  if (getsockopt(probe.get(), SOL_SOCKET, 77 /* SO_PEERPIDFD */, &pidfd, &size) != 0) GTEST_SKIP() << "Linux before 6.5";
  close(pidfd);
  for (const int32_t pid : {1, getpid() + 1, 0, -1}) {
    EXPECT_EQ(Say(HelloOf(agent, [&](auto& h) { h.pid = pid; }), {agent.file()}), STEPSCOPE_HELLO_DENIED) << pid;
  }
  const auto rejected = ingest_->Stats().rejected;
  EXPECT_EQ(rejected.at("hello claims pid #, its process has #") +
                (rejected.contains("hello claims pid -#, its process has #") ? 1 : 0),
            4u);
  EXPECT_EQ(Silent(agent).reply.status, STEPSCOPE_HELLO_OK);
}

TEST_F(HostileAgentTest, CountersOfRefusalsStayFewWhateverIsSent) {
  TestAgent agent('c');
  for (uint64_t i = 0; i < 300; ++i) {
    Say(HelloOf(agent, [&](auto& h) { h.file_bytes += i + 1; }), {agent.file()});
    Say(HelloOf(agent, [&](auto& h) { h.clock_kind = static_cast<uint32_t>(100 + i); }), {agent.file()});
  }
  EXPECT_LE(ingest_->Stats().rejected.size(), 4u);
}

TEST_F(HostileAgentTest, OneLivingProcessMayOpenSessionsForEverAndLeavesNothingBehind) {
  const auto open_many = [&](int count, char last_id) {
    for (int i = 0; i < count; ++i) {
      TestAgent agent(static_cast<char>(-1 - i));
      ASSERT_EQ(agent.Hello(options_.socket_path).reply.status, STEPSCOPE_HELLO_OK);
    }
    TestAgent last(last_id);
    ASSERT_EQ(last.Hello(options_.socket_path).reply.status, STEPSCOPE_HELLO_OK);
    EXPECT_TRUE(Eventually([&] { return ingest_->Stats().sessions == 1; }));
  };
  open_many(20, 'y');
  EXPECT_TRUE(Eventually([&] { return OpenFiles() < 60; })) << OpenFiles();
  const size_t files = OpenFiles();
  open_many(100, 'z');
  EXPECT_TRUE(Eventually([&] { return OpenFiles() <= files + 8; })) << OpenFiles() << " open, before " << files;
}

TEST_F(HostileAgentTest, HeadsThatLieAreCountedAndCostNothing) {
  TestAgent agent('h');
  agent.Write(1, RingBytesBuilder().Thread(gettid(), "w", Now()).Name(2, "x").Begin(2, Now()).End(Now()).str());
  ASSERT_EQ(Silent(agent).reply.status, STEPSCOPE_HELLO_OK);
  ASSERT_TRUE(pipeline_.WaitSpans(1));
  const int64_t resident = Resident();
  const auto set_head = [&](uint64_t head, uint32_t generation) {
    agent.ring(1).generation = generation;
    __atomic_store_n(&agent.ring(1).head, head, __ATOMIC_RELEASE);
    const size_t before = pipeline_.delivered();
    return pipeline_.Wait([&](const FakePipeline& p) { return p.delivered() > before; });
  };
  EXPECT_TRUE(set_head(uint64_t{1} << 62, 0)) << "far beyond what the ring holds";
  agent.ring(1).head = 8;  // and back again: nothing is read twice
  EXPECT_TRUE(set_head(std::numeric_limits<uint64_t>::max(), 7)) << "a generation that never was";
  EXPECT_TRUE(set_head(16, std::numeric_limits<uint32_t>::max()));
  agent.ring(1).generation = 3;                                // back again
  for (uint32_t ring = 0; ring < TestAgent::kRings; ++ring) {  // descriptors that point anywhere
    agent.ring(ring) = {};
    agent.ring(ring).state = STEPSCOPE_RING_ACTIVE;
    agent.ring(ring).data_bytes = uint64_t{1} << (ring * 20);
    agent.ring(ring).data_offset = std::numeric_limits<uint64_t>::max() - ring;
    agent.ring(ring).tail = uint64_t{1} << 50;
    agent.ring(ring).head = 4096;
  }
  ExpectOthersGoOn();
  EXPECT_GE(pipeline_.losses.size(), 2u);
  EXPECT_LT(Resident() - resident, 64 << 20);
}

TEST_F(HostileAgentTest, RingsThatOverlapAreReadNoMoreThanTheFileIsLong) {
  TestAgent agent('r');
  const uint64_t span = STEPSCOPE_RING_SENDER_BYTES;
  for (uint32_t ring = 0; ring < TestAgent::kRings; ++ring) {
    agent.Open(ring, gettid());
    agent.ring(ring).data_offset = STEPSCOPE_RING_ALIGNMENT;
    agent.ring(ring).data_bytes = span;
    agent.ring(ring).head = span;
  }
  ASSERT_EQ(Silent(agent).reply.status, STEPSCOPE_HELLO_OK);
  ASSERT_TRUE(Eventually([&] { return ingest_->Stats().bytes >= span; }));
  ExpectOthersGoOn();
  EXPECT_LE(ingest_->Stats().salvaged_bytes, TestAgent::kFileBytes);
}

TEST_F(HostileAgentTest, ClocksThatLieLoseTheirOwnRowsOnly) {
  const uint64_t kYear = uint64_t{365} * 86'400 * 1'000'000'000;
  TestAgent agent('t');
  agent.header().clock_kind = STEPSCOPE_CLOCK_TSC;
  RingBytesBuilder bytes;
  bytes.Thread(gettid(), "w", 1).Name(2, "forged").Name(99, "used");
  for (const uint64_t tick : {uint64_t{0}, Now() + 300 * kYear, Now(), uint64_t{1} << 63, ~uint64_t{0}}) {
    bytes.Anchor(tick, ~uint64_t{0}, static_cast<int64_t>(~tick), std::numeric_limits<int64_t>::min());
    bytes.Anchor(tick, 0, std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::max());
    bytes.Begin(2, tick).End(tick - kYear).Begin(0xFFFFFFFF, tick).End(tick + 1);
  }
  agent.Write(1, bytes.str());
  const unique_fd connection = ConnectTo(options_.socket_path);
  ASSERT_TRUE(SendWithFiles(connection.get(),
                            HelloOf(agent,
                                    [&](auto& h) {
                                      h.clock_kind = STEPSCOPE_CLOCK_TSC;
                                      h.ticks = ~uint64_t{0};
                                      h.monotonic_ns = uint64_t{1} << 63;
                                    }),
                            {agent.file()}));
  ASSERT_EQ(ReadAnswer(connection.get()).reply.status, STEPSCOPE_HELLO_OK);
  EXPECT_TRUE(pipeline_.Wait([](const FakePipeline& p) { return p.unplaceable > 0; }));
  ExpectOthersGoOn();
}

TEST_F(HostileAgentTest, ThreadsWithoutEndAreNotRemembered) {
  TestAgent agent('n');
  agent.Beat();
  const HelloAnswer answer = agent.Hello(options_.socket_path);
  PushClient client(agent.TakeConnection(), answer.nonce());
  uint64_t position = 0;
  for (int32_t piece = 0; piece < 10; ++piece) {
    RingBytesBuilder bytes;
    for (int32_t i = 0; i < 10'000; ++i) bytes.Thread(1 + piece * 10'000 + i, "t", Now());
    ASSERT_TRUE(client.Push(1, position, bytes.str()));
    position += bytes.str().size();
  }
  ASSERT_TRUE(client.WaitAck(1, position));
  EXPECT_LE(pipeline_.notes.size(), 65'600u);
  EXPECT_EQ(pipeline_.Lost(LossReason::kRateLimited), 100'000 - 65'536);
  ExpectOthersGoOn();
}

TEST_F(HostileAgentTest, OneUserDoesNotTakeThePlaceOfAll) {
  options_.max_sessions_per_user = 2;
  options_.socket_path += "2";
  auto started = Ingest::Start(options_, {&store_, &pipeline_, &clocks_, &jobs_, &tids_});
  ASSERT_TRUE(started.ok());
  std::vector<pid_t> children;
  for (int i = 0; i < 2; ++i) {
    TestAgent* agent = new TestAgent(static_cast<char>('0' + i));
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      agent->header().pid = getpid();
      const bool taken = agent->Hello(options_.socket_path).reply.status == STEPSCOPE_HELLO_OK;
      (void)!write(ready[1], taken ? "y" : "n", 1);
      while (true) pause();
    }
    delete agent;
    char byte = 0;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    EXPECT_EQ(byte, 'y');
    close(ready[0]);
    close(ready[1]);
    children.push_back(pid);
  }
  TestAgent third('3');
  EXPECT_EQ(third.Hello(options_.socket_path).reply.status, STEPSCOPE_HELLO_BUSY);
  for (const pid_t pid : children) {
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  EXPECT_TRUE(Eventually([&] { return third.Hello(options_.socket_path).reply.status == STEPSCOPE_HELLO_OK; }))
      << "their places are free again";
}

}  // namespace
}  // namespace stepscope
