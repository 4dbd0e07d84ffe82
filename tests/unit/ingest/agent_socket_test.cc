// SPDX-License-Identifier: Apache-2.0
// What strangers may do on the agent socket, and what becomes of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "daemon/ingest/hello_message.h"
#include "daemon/ingest/ingest.h"
#include "tests/unit/ingest/fake_pipeline.h"
#include "tests/unit/ingest/test_agent.h"

namespace stepscope {
namespace {

using ::stepscope::testing::ConnectTo;
using ::stepscope::testing::HelloAnswer;
using ::stepscope::testing::ReadAnswer;
using ::stepscope::testing::SendWithFiles;
using ::stepscope::testing::TestAgent;
using ::testing::HasSubstr;

class AgentSocketTest : public ::testing::Test {
 protected:
  AgentSocketTest() {
    std::string folder = ::testing::TempDir() + "socket_XXXXXX";
    folder_ = mkdtemp(folder.data());
    options_.socket_path = folder_ + "/run/agent.sock";
    options_.hello_timeout_ns = 200 * kNsPerMillisecond;
  }
  ~AgentSocketTest() override {
    ingest_.reset();
    std::filesystem::remove_all(folder_);
  }
  absl::Status Start() {
    auto started = Ingest::Start(options_, {&store_, &pipeline_, &clocks_, &jobs_, &tids_});
    if (started.ok()) ingest_ = *std::move(started);
    return started.status();
  }
  /// Sends `bytes` with `files` and returns the daemon's answer.
  HelloAnswer Say(const std::string& bytes, const std::vector<int>& files) {
    const unique_fd connection = ConnectTo(options_.socket_path);
    EXPECT_TRUE(SendWithFiles(connection.get(), bytes, files));
    return ReadAnswer(connection.get());
  }
  /// Changes one field of an honest hello.
  std::string Twisted(const std::function<void(stepscope_hello&)>& twist) {
    std::string text = agent_.HelloText();
    stepscope_hello hello;
    std::memcpy(&hello, text.data(), sizeof(hello));
    twist(hello);
    std::memcpy(text.data(), &hello, sizeof(hello));
    return text;
  }
  void ExpectStillServing() {
    TestAgent honest('h');
    const HelloAnswer answer = honest.Hello(options_.socket_path);
    EXPECT_TRUE(answer.arrived);
    EXPECT_EQ(answer.reply.status, STEPSCOPE_HELLO_OK);
  }

  std::string folder_;
  Ingest::Options options_;
  testing::FakeStore store_;
  ClockRegistry clocks_;
  testing::FakePipeline pipeline_{&store_, &clocks_};
  testing::FakeJobs jobs_;
  SystemClock clock_;
  InnerTids tids_{&clock_, [] {}};
  std::unique_ptr<Ingest> ingest_;
  TestAgent agent_{'o'};
};

TEST_F(AgentSocketTest, TheSocketIsOpenToAllAndItsFolderIsNot) {
  ASSERT_TRUE(Start().ok());
  struct stat file{};
  ASSERT_EQ(stat(options_.socket_path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0666u);
  ASSERT_EQ(stat((folder_ + "/run").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0755u);
  ingest_.reset();
  EXPECT_FALSE(std::filesystem::exists(options_.socket_path));
}

TEST_F(AgentSocketTest, AStaleSocketIsReplacedALiveOneIsNot) {
  ASSERT_TRUE(Start().ok());
  auto first = std::move(ingest_);
  EXPECT_EQ(Start().code(), absl::StatusCode::kFailedPrecondition);
  std::filesystem::create_hard_link(options_.socket_path, folder_ + "/kept");
  first.reset();
  std::filesystem::rename(folder_ + "/kept", options_.socket_path);  // as a killed daemon leaves it
  EXPECT_TRUE(Start().ok());
  ExpectStillServing();
}

TEST_F(AgentSocketTest, PathsThatCannotWorkAreClearErrors) {
  options_.socket_path = folder_ + "/" + std::string(200, 'x');
  absl::Status status = Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("107"));
  options_.socket_path = folder_ + "/file";
  std::ofstream(options_.socket_path) << "precious";
  status = Start();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(std::filesystem::exists(options_.socket_path));
}

TEST_F(AgentSocketTest, HellosThatLieAreRefusedByName) {
  ASSERT_TRUE(Start().ok());
  const std::vector<int> file{agent_.file()};
  const auto status_of = [&](const std::string& bytes, const std::vector<int>& files) { return Say(bytes, files).reply.status; };
  EXPECT_EQ(status_of(std::string(200, 'G'), file), STEPSCOPE_HELLO_BAD_MESSAGE);
  EXPECT_EQ(status_of("GET / HTTP/1.1\r\nHost: x\r\n\r\n", {}), STEPSCOPE_HELLO_BAD_MESSAGE)
      << "too short: the time limit ends it";
  EXPECT_EQ(status_of(agent_.HelloText(), {}), STEPSCOPE_HELLO_BAD_FILE);
  EXPECT_EQ(status_of(agent_.HelloText(), {agent_.file(), agent_.file()}), STEPSCOPE_HELLO_BAD_MESSAGE);
  EXPECT_EQ(status_of(agent_.HelloText(), std::vector<int>(60, agent_.file())), STEPSCOPE_HELLO_BAD_MESSAGE);
  EXPECT_EQ(status_of(Twisted([](auto& h) { h.uid += 1; }), file), STEPSCOPE_HELLO_DENIED);
  EXPECT_EQ(status_of(Twisted([](auto& h) { h.version = 0; }), file), STEPSCOPE_HELLO_BAD_MESSAGE);
  EXPECT_EQ(status_of(Twisted([](auto& h) { h.size = 8; }), file), STEPSCOPE_HELLO_BAD_MESSAGE);
  EXPECT_EQ(status_of(Twisted([](auto& h) { h.facts_bytes = 0xFFFFFFFF; }), file), STEPSCOPE_HELLO_BAD_MESSAGE);
  EXPECT_EQ(status_of(Twisted([](auto& h) { h.clock_kind = 77; }), file), STEPSCOPE_HELLO_BAD_MESSAGE);
  EXPECT_EQ(status_of(Twisted([](auto& h) { h.file_bytes *= 2; }), file), STEPSCOPE_HELLO_BAD_FILE);
  EXPECT_EQ(status_of(Twisted([](auto& h) { h.session[0] ^= 1; }), file), STEPSCOPE_HELLO_BAD_FILE);
  EXPECT_EQ(status_of(agent_.HelloText().substr(0, 50), file), STEPSCOPE_HELLO_BAD_MESSAGE);
  EXPECT_EQ(ingest_->Stats().sessions_total, 0u);
  ExpectStillServing();
}

TEST_F(AgentSocketTest, FilesThatAreNoSealedMemfdsAreRefused) {
  ASSERT_TRUE(Start().ok());
  const auto refused = [&](int fd) { return Say(agent_.HelloText(), {fd}).reply.status == STEPSCOPE_HELLO_BAD_FILE; };
  const unique_fd unsealed(memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), TestAgent::kFileBytes), 0);
  EXPECT_TRUE(refused(unsealed.get()));
  const unique_fd empty(memfd_create("x", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(empty.get(), TestAgent::kFileBytes), 0);
  fcntl(empty.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  EXPECT_TRUE(refused(empty.get())) << "sealed, but no ring file";
  const unique_fd file(open((folder_ + "/plain").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(ftruncate(file.get(), TestAgent::kFileBytes), 0);
  EXPECT_TRUE(refused(file.get()));
  const unique_fd folder(open(folder_.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(refused(folder.get()));
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_TRUE(refused(ends[0]));
  close(ends[0]);
  close(ends[1]);
  const unique_fd path_only(open("/dev/null", O_PATH | O_CLOEXEC));
  EXPECT_TRUE(refused(path_only.get()));
  ExpectStillServing();
}

TEST_F(AgentSocketTest, SilentAndSlowPeersHoldNobodyUp) {
  ASSERT_TRUE(Start().ok());
  std::vector<unique_fd> silent;
  for (int i = 0; i < 30; ++i) silent.push_back(ConnectTo(options_.socket_path));
  ExpectStillServing();
  for (unique_fd& peer : silent) {
    const HelloAnswer answer = ReadAnswer(peer.get());
    EXPECT_EQ(answer.reply.status, STEPSCOPE_HELLO_BAD_MESSAGE);
  }
  EXPECT_EQ(ingest_->Stats().rejected.at("no hello in time"), 30u);
}

TEST_F(AgentSocketTest, AHelloMayArriveByteByByte) {
  ASSERT_TRUE(Start().ok());
  options_.hello_timeout_ns = 10 * kNsPerSecond;
  const unique_fd connection = ConnectTo(options_.socket_path);
  const std::string text = agent_.HelloText(std::string("RANK=1\0WORLD_SIZE=8\0", 20));
  ASSERT_TRUE(SendWithFiles(connection.get(), text.substr(0, 1), {agent_.file()}));
  for (size_t i = 1; i < text.size(); ++i) ASSERT_EQ(send(connection.get(), &text[i], 1, MSG_NOSIGNAL), 1);
  const HelloAnswer answer = ReadAnswer(connection.get());
  ASSERT_TRUE(answer.arrived);
  EXPECT_EQ(answer.reply.status, STEPSCOPE_HELLO_OK);
  EXPECT_EQ(jobs_.facts_seen.at("WORLD_SIZE"), "8");
}

TEST_F(AgentSocketTest, SessionsBeyondTheLimitAreToldToComeBack) {
  options_.max_sessions = 1;
  ASSERT_TRUE(Start().ok());
  TestAgent first('1'), second('2');
  EXPECT_EQ(first.Hello(options_.socket_path).reply.status, STEPSCOPE_HELLO_OK);
  EXPECT_EQ(second.Hello(options_.socket_path).reply.status, STEPSCOPE_HELLO_BUSY);
}

TEST(HelloMessageTest, FactsAreKeysAndValues) {
  TestAgent agent('f');
  const std::string text = agent.HelloText(std::string("A=1\0junk\0=x\0B=\0C=2", 19));
  const auto hello = ParseHello(std::as_bytes(std::span(text)));
  ASSERT_TRUE(hello.ok()) << hello.status();
  EXPECT_THAT(hello->facts, ::testing::ElementsAre(std::pair("A", "1"), std::pair("B", ""), std::pair("C", "2")));
}

}  // namespace
}  // namespace stepscope
