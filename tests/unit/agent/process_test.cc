// SPDX-License-Identifier: Apache-2.0
// The agent library in real processes that die, fork, clone and misbehave, seen from the daemon's end: by the hello and by pread
// of the ring file, which is all the daemon has.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <random>
#include <thread>

#include "agent_socket.h"
#include "ring_reader.h"

namespace stepscope::agent {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kSoon{5000};

class Process : public testing::Test {
 protected:
  Child Run(std::vector<std::string> arguments, std::map<std::string, std::string> environment = {}) {
    arguments.insert(arguments.begin(), STEPSCOPE_ANNOTATOR);
    environment.emplace("STEPSCOPE_SOCKET", socket_.path());
    return Child(arguments, environment);
  }
  AgentSocket socket_;
};

// Every ring of a file, each checked on the way; sums of what was recorded and lost.
struct FileSums {
  uint64_t user_records = 0;
  uint64_t lost = 0;
  uint64_t without_ring = 0;  // part of lost: records from before the session was open, on a slow machine
  std::vector<Span> spans;
};

FileSums ReadAll(int fd) {
  RingFileCopy file(fd);
  FileSums sums;
  sums.lost = sums.without_ring = file.header().no_ring_lost;
  for (uint32_t ring = 1; ring < STEPSCOPE_RING_SLOTS; ++ring) {
    if (file.descriptor(ring).state == STEPSCOPE_RING_FREE) continue;
    RingContents contents = file.Contents(ring);
    sums.user_records += contents.user_records;
    sums.lost += file.descriptor(ring).lost_records;
    sums.spans.insert(sums.spans.end(), contents.spans.begin(), contents.spans.end());
  }
  return sums;
}

std::vector<std::string> NamesIn(int fd) {
  std::vector<std::string> names;
  for (const Span& span : ReadAll(fd).spans) names.push_back(span.name);
  return names;
}

int OnlySeals(int fd) { return fcntl(fd, F_GET_SEALS); }

TEST_F(Process, GreetsWithASealedRingFileAndRankFacts) {
  Child child =
      Run({"first"}, {{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"SLURM_JOB_ID", "77"}, {"MASTER_ADDR", "10.0.0.1"}, {"SECRET", "x"}});
  std::optional<Greeting> greeting = socket_.Accept(kSoon);
  ASSERT_TRUE(greeting.has_value());
  pid_t pid = child.pid();
  EXPECT_EQ(child.Wait(), 0) << child.output();
  EXPECT_NE(child.output().find("recording"), std::string::npos) << child.output();
  EXPECT_EQ(greeting->hello.magic, STEPSCOPE_HELLO_MAGIC);
  EXPECT_EQ(greeting->hello.pid, pid);
  EXPECT_EQ(greeting->hello.parent_session_known, 0u);
  EXPECT_EQ(greeting->facts, (std::map<std::string, std::string>{{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"SLURM_JOB_ID", "77"}}));
  EXPECT_EQ(OnlySeals(greeting->ring_file.get()) & (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
            F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  struct stat status;
  ASSERT_EQ(fstat(greeting->ring_file.get(), &status), 0);
  EXPECT_EQ(static_cast<uint64_t>(status.st_size), greeting->hello.file_bytes);
  EXPECT_LE(greeting->hello.file_bytes, STEPSCOPE_RING_FILE_MAX_BYTES);
  RingFileCopy file(greeting->ring_file.get());
  EXPECT_EQ(std::memcmp(file.header().session, greeting->hello.session, 16), 0);
  EXPECT_EQ(NamesIn(greeting->ring_file.get()), std::vector<std::string>{"first"});
}

TEST_F(Process, WithoutADaemonEveryCallIsAQuickNothing) {
  socket_.StopListening();
  Child child = Run({"steps", "4", "100000", "0", "0"});
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(child.output(), "lost 800000 flushed 0\n");
  Child first = Run({"first"});
  EXPECT_EQ(first.Wait(), 0);
  EXPECT_NE(first.output().find("off: no daemon at " + socket_.path()), std::string::npos) << first.output();
}

// On a machine where a daemon listens at the default path that one is greeted, and this test cannot be.
TEST_F(Process, WithoutASystemDaemonThePrivateOneIsGreeted) {
  const std::string folder = std::filesystem::path(socket_.path()).parent_path();
  const std::string nested = folder + "/.local/share/stepscope";
  for (const auto& [variable, value] : std::map<std::string, std::string>{{"STEPSCOPE_DATA_DIR", folder}, {"HOME", folder}}) {
    if (variable == "HOME") {
      std::filesystem::create_directories(nested);
      std::filesystem::create_symlink(socket_.path(), nested + "/agent.sock");
    }
    Child child = Run({"first"}, {{"STEPSCOPE_SOCKET", ""}, {"XDG_DATA_HOME", ""}, {variable, value}});
    EXPECT_TRUE(socket_.Accept(kSoon).has_value()) << variable;
    EXPECT_EQ(child.Wait(), 0);
    EXPECT_NE(child.output().find("recording"), std::string::npos) << child.output();
  }
  const std::string unused = folder + "/none";
  Child child = Run({"first"}, {{"STEPSCOPE_SOCKET", unused}, {"STEPSCOPE_DATA_DIR", folder}});
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_NE(child.output().find("off: no daemon at " + unused), std::string::npos) << "a socket that is given is the only one";
  Child longest = Run({"first"}, {{"STEPSCOPE_SOCKET", ""}, {"STEPSCOPE_DATA_DIR", folder + std::string(100, 'x')}});
  EXPECT_EQ(longest.Wait(), 0);
  EXPECT_NE(longest.output().find("off: no daemon at /run/stepscope/agent.sock"), std::string::npos) << longest.output();
  std::filesystem::remove_all(folder + "/.local");
}

TEST_F(Process, ADaemonThatComesLaterIsToldWhatWentBefore) {
  socket_.StopListening();
  Child child = Run({"steps", "1", "32000", "1000", "0"});  // at least two seconds; the agent tries again after one
  std::this_thread::sleep_for(milliseconds(300));
  socket_.ListenAgain();
  std::optional<Greeting> greeting = socket_.Accept(kSoon);
  ASSERT_TRUE(greeting.has_value());
  EXPECT_EQ(child.Wait(), 0);
  FileSums sums = ReadAll(greeting->ring_file.get());
  EXPECT_GT(sums.user_records, 0u);
  EXPECT_GT(sums.without_ring, 0u);
  EXPECT_EQ(sums.user_records + sums.lost, 2u * 32000);
  EXPECT_EQ(child.output(), "lost " + std::to_string(sums.lost) + " flushed 0\n");
  const RingFileCopy file(greeting->ring_file.get());
  EXPECT_LT(file.header().no_ring_first_ticks, greeting->hello.ticks);
  EXPECT_GE(file.header().no_ring_last_ticks, greeting->hello.ticks);
}

TEST_F(Process, FullRingsDropAndTheBooksBalance) {
  for (const char* ring_bytes : {"4096", "65536"}) {
    Child child = Run({"steps", "3", "20000", "0", "0"}, {{"STEPSCOPE_RING_BYTES", ring_bytes}});
    std::optional<Greeting> greeting = socket_.Accept(kSoon);
    ASSERT_TRUE(greeting.has_value());
    EXPECT_EQ(child.Wait(), 0);
    FileSums sums = ReadAll(greeting->ring_file.get());
    EXPECT_GT(sums.lost, 0u);
    // An end whose begin found no ring closes nothing: it is ignored, not lost.
    EXPECT_LE(sums.user_records + sums.lost, 2u * 3 * 20000);
    EXPECT_GE(sums.user_records + sums.lost + sums.without_ring, 2u * 3 * 20000);
    EXPECT_EQ(child.output(), "lost " + std::to_string(sums.lost) + " flushed 0\n");
    for (const Span& span : sums.spans) EXPECT_TRUE(span.ended);
  }
}

TEST_F(Process, NoCommittedRecordIsLostOrTornByAHundredKills) {
  std::mt19937 random(11);
  char path[] = "/tmp/annotator_progress_XXXXXX";
  unique_fd progress_fd(mkstemp(path));
  ASSERT_EQ(ftruncate(progress_fd.get(), 4096), 0);
  auto* progress =
      static_cast<std::atomic<uint64_t>*>(mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, progress_fd.get(), 0));
  constexpr int kThreads = 4;
  for (int round = 0; round < 100; ++round) {
    for (int t = 0; t < kThreads; ++t) progress[t] = 0;
    Child child = Run({"spin", std::to_string(kThreads), round % 2 == 0 ? "0" : "60", path});
    std::optional<Greeting> greeting = socket_.Accept(kSoon);
    ASSERT_TRUE(greeting.has_value());
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 8000));
    child.Kill();
    child.Wait();
    RingFileCopy file(greeting->ring_file.get());
    uint64_t finished = 0, produced_at_most = 0, accounted = file.header().no_ring_lost;
    for (int t = 0; t < kThreads; ++t) {
      finished += 2 * progress[t];
      produced_at_most += 2 * (progress[t] + 1);
    }
    for (uint32_t ring = 1; ring < STEPSCOPE_RING_SLOTS; ++ring) {
      if (file.descriptor(ring).state == STEPSCOPE_RING_FREE) continue;
      RingContents contents = file.Contents(ring);
      accounted += contents.user_records + file.descriptor(ring).lost_records;
      if (contents.spans.empty()) continue;
      const int64_t first = contents.spans[0].number;  // later than 0 only if the session was slow to open, and then counted
      ASSERT_LE(first, static_cast<int64_t>(file.header().no_ring_lost));
      for (size_t i = 0; i < contents.spans.size(); ++i) ASSERT_EQ(contents.spans[i].number, first + static_cast<int64_t>(i));
    }
    ASSERT_GE(accounted + file.header().no_ring_lost, finished) << "round " << round;
    ASSERT_LE(accounted, produced_at_most) << "round " << round;
  }
  munmap(progress, 4096);
  unlink(path);
}

void ExpectParentAndChild(AgentSocket& socket, Child& child) {
  std::optional<Greeting> parent = socket.Accept(kSoon);
  std::optional<Greeting> forked = socket.Accept(kSoon);
  ASSERT_TRUE(parent.has_value() && forked.has_value());
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(NamesIn(forked->ring_file.get()), std::vector<std::string>{"in the child"});
  EXPECT_EQ(NamesIn(parent->ring_file.get()), (std::vector<std::string>{"before the child", "after the child"}));
  EXPECT_NE(std::memcmp(forked->hello.session, parent->hello.session, 16), 0);
  EXPECT_EQ(forked->hello.parent_session_known, 1u);
  EXPECT_EQ(std::memcmp(forked->hello.parent_session, parent->hello.session, 16), 0);
  EXPECT_NE(forked->hello.pid, parent->hello.pid);
}

TEST_F(Process, AForkedChildThatAnnotatesAndExitsAtOnceLosesNothing) {
  Child child = Run({"fork"});
  ExpectParentAndChild(socket_, child);
}

TEST_F(Process, ARawCloneIsAProcessOfItsOwnToo) {
  Child child = Run({"clone"});
  ExpectParentAndChild(socket_, child);
}

TEST_F(Process, VforkLeavesTheParentAsItWas) {
  Child child = Run({"vfork"});
  std::optional<Greeting> greeting = socket_.Accept(kSoon);
  ASSERT_TRUE(greeting.has_value());
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(NamesIn(greeting->ring_file.get()), (std::vector<std::string>{"before the child", "after the child"}));
}

TEST_F(Process, ForksWhileOtherThreadsRecord) {
  Child child = Run({"fork_busy", "30"});
  int sessions = 0;
  std::thread waiter([&] { EXPECT_EQ(child.Wait(), 0); });
  std::vector<Greeting> greetings;
  while (sessions < 31) {
    std::optional<Greeting> greeting = socket_.Accept(kSoon);
    if (!greeting.has_value()) break;
    ++sessions;
    greetings.push_back(std::move(*greeting));
  }
  waiter.join();
  EXPECT_EQ(sessions, 31);
  for (Greeting& greeting : greetings) {
    FileSums sums = ReadAll(greeting.ring_file.get());
    EXPECT_GT(sums.user_records, 0u);
  }
}

TEST_F(Process, AHostThatClosesAllDescriptorsKeepsItsOwn) {
  Child child = Run({"close"});
  std::optional<Greeting> greeting = socket_.Accept(kSoon);
  ASSERT_TRUE(greeting.has_value());
  EXPECT_EQ(child.Wait(), 0);
  EXPECT_EQ(child.output(), "intact\n");
}

TEST_F(Process, ASignalHandlerThatRecordsBreaksNothing) {
  Child child = Run({"signals", "200000"});
  std::optional<Greeting> greeting = socket_.Accept(kSoon);
  ASSERT_TRUE(greeting.has_value());
  EXPECT_EQ(child.Wait(), 0);
  unsigned long long produced = 0, lost = 0;
  ASSERT_EQ(std::sscanf(child.output().c_str(), "produced %llu lost %llu", &produced, &lost), 2);
  FileSums sums = ReadAll(greeting->ring_file.get());
  EXPECT_LE(sums.user_records + lost, produced);
  EXPECT_GE(sums.user_records + lost + sums.without_ring, produced);
}

}  // namespace
}  // namespace stepscope::agent
