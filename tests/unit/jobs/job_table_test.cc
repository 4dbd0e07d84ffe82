// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/job_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "daemon/jobs/process_tree.h"
#include "tests/unit/pipeline/temp_store.h"

namespace stepscope {
namespace {

/// A child that sleeps until it is killed, reaped at the end of the test.
class Sleeper {
 public:
  Sleeper() : pid_(fork()) {
    if (pid_ == 0) {
      for (;;) pause();
    }
  }
  ~Sleeper() { Kill(); }
  void Kill() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  ProcessKey key() const { return {Pid{pid_}, *ReadStartTicks(Pid{pid_})}; }

 private:
  pid_t pid_;
};

class JobTableTest : public testing::Test {
 protected:
  JobTableTest() { Restart(); }
  void Restart(const std::string& boot = "boot-1", const std::vector<std::pair<RunId, ProcessKey>>& unread = {}) {
    jobs_ = std::make_unique<JobTable>(
        store_.get(), &clock_, boot, "node-a",
        JobTable::Hooks{[this](RunId run, ProcessKey) { tracked_.push_back(run); },
                        [this](RunId run) { untracked_.push_back(run); }, [this](RunId run) { ended_.push_back(run); },
                        [this](const JobSnapshot& job) {
                          were_open_.push_back(job.run);
                          return last_alive_;
                        }});
    EXPECT_TRUE(jobs_->Load(unread).ok());
  }
  JobSnapshot Start(const ProcessKey& root, const std::string& name = "train") {
    StartJobSpec spec;
    spec.name = name;
    spec.id = name;
    spec.uid = getuid();
    spec.root = root;
    return *jobs_->StartJob(spec);
  }

  TempStore store_;
  FakeClock clock_;
  std::vector<RunId> tracked_, untracked_, ended_, were_open_;
  NodeTime last_alive_{0};
  std::unique_ptr<JobTable> jobs_;
};

TEST_F(JobTableTest, ASessionJoinsTheJobOfItsAncestor) {
  const ProcessKey self{Pid{getpid()}, *ReadStartTicks(Pid{getpid()})};
  const JobSnapshot job = Start(self);
  const Sleeper child;
  EXPECT_EQ(jobs_->RunForSession(child.key(), getuid(), {{"RANK", "3"}, {"WORLD_SIZE", "8"}}).value(), job.run);
  const auto ranks = jobs_->Find("train")->ranks;
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_EQ(ranks[0].rank, 3);
  EXPECT_EQ(ranks[0].world_size, 8);
  EXPECT_EQ(jobs_->RankOf(job.run, child.key()), 3);
}

TEST_F(JobTableTest, AJobKeepsTheNumberOfItsNodes) {
  const ProcessKey self{Pid{getpid()}, *ReadStartTicks(Pid{getpid()})};
  Start(self);
  ASSERT_TRUE(jobs_->RunForSession(self, getuid(), {{"RANK", "0"}, {"GROUP_WORLD_SIZE", "3"}}).ok());
  const Sleeper child;
  ASSERT_TRUE(jobs_->RunForSession(child.key(), getuid(), {}).ok());
  Restart();
  EXPECT_EQ(jobs_->Find("train")->facts.at("launcher.nodes"), "3");
}

TEST_F(JobTableTest, AForkedWorkerThatInheritedRankIsNoRankOfItsOwn) {
  const ProcessKey self{Pid{getpid()}, *ReadStartTicks(Pid{getpid()})};
  const JobSnapshot job = Start(self);
  ASSERT_TRUE(jobs_->RunForSession(self, getuid(), {{"RANK", "0"}}).ok());
  const Sleeper worker;
  ASSERT_TRUE(jobs_->RunForSession(worker.key(), getuid(), {{"RANK", "0"}}).ok());
  EXPECT_EQ(jobs_->Find("train")->ranks.size(), 1u);
  EXPECT_EQ(jobs_->Find("train")->ranks[0].process, self);
  EXPECT_EQ(jobs_->RankOf(job.run, worker.key()), 0);
}

TEST_F(JobTableTest, WorkersMayBeHeardBeforeTheirRank) {
  const ProcessKey self{Pid{getpid()}, *ReadStartTicks(Pid{getpid()})};
  Start(self);
  const Sleeper worker, other_worker;
  ASSERT_TRUE(jobs_->RunForSession(worker.key(), getuid(), {{"RANK", "0"}}).ok());
  ASSERT_TRUE(jobs_->RunForSession(other_worker.key(), getuid(), {{"RANK", "0"}}).ok());
  ASSERT_TRUE(jobs_->RunForSession(self, getuid(), {{"RANK", "0"}}).ok());
  ASSERT_EQ(jobs_->Find("train")->ranks.size(), 1u);
  EXPECT_EQ(jobs_->Find("train")->ranks[0].process, self);
}

TEST_F(JobTableTest, AProcessGoneBeforeItsHelloWasReadBelongsToTheJobThatFollowedIt) {
  Sleeper root;
  const ProcessKey key = root.key();
  const JobSnapshot job = Start(key);
  root.Kill();
  jobs_->OnProcessExit(job.run, key);
  EXPECT_EQ(jobs_->RunForSession({key.pid, 0}, getuid(), {}).value(), job.run);
}

TEST_F(JobTableTest, NobodyJoinsAnothersJob) {
  const ProcessKey self{Pid{getpid()}, *ReadStartTicks(Pid{getpid()})};
  const JobSnapshot job = Start(self);
  const Sleeper child;
  EXPECT_NE(jobs_->RunForSession(child.key(), getuid() + 1, {}).value(), job.run);
}

TEST_F(JobTableTest, AJobGoesQuietThenEndsWhenItsProcessesAreGone) {
  Sleeper root;
  const JobSnapshot job = Start(root.key());
  jobs_->Tick();
  EXPECT_EQ(jobs_->Find("")->state, JobState::kRunning);
  root.Kill();
  jobs_->Tick();
  EXPECT_EQ(jobs_->Find("")->state, JobState::kQuiet);
  clock_.node.ns += 59 * kNsPerSecond;
  jobs_->Tick();
  EXPECT_EQ(jobs_->Find("")->state, JobState::kQuiet);
  clock_.node.ns += 2 * kNsPerSecond;
  jobs_->Tick();
  EXPECT_EQ(jobs_->Find("")->state, JobState::kEnded);
  EXPECT_THAT(ended_, testing::ElementsAre(job.run));
  EXPECT_THAT(untracked_, testing::ElementsAre(job.run));
}

TEST_F(JobTableTest, AStepOfTheWallClockLeavesTheNodeTimesOfAJobInOrder) {
  const Sleeper root;
  const JobSnapshot started = Start(root.key());
  clock_.wall.ns -= 3600 * kNsPerSecond;
  clock_.node.ns += 5 * kNsPerSecond;
  Restart();
  ASSERT_TRUE(jobs_->EndJob(started.run, "").ok());
  const JobSnapshot ended = *jobs_->ByRun(started.run);
  EXPECT_EQ(ended.start_node.ns, started.start_node.ns);
  EXPECT_EQ(ended.end_node - ended.start_node, 5 * kNsPerSecond);
  EXPECT_EQ(ended.start_wall.ns - ended.end_wall.ns, 3600 * kNsPerSecond) << "wall times are what the clock said";
}

TEST_F(JobTableTest, ARestartedDaemonTakesARunningJobUpAgain) {
  const Sleeper root;
  const JobSnapshot job = Start(root.key());
  Restart();
  EXPECT_EQ(jobs_->Find("train")->run, job.run);
  EXPECT_EQ(jobs_->Find("train")->state, JobState::kRunning);
  EXPECT_THAT(tracked_, testing::ElementsAre(job.run, job.run));
}

TEST_F(JobTableTest, AJobOfAnEarlierBootIsEndedNotResumed) {
  const Sleeper root;
  Start(root.key());
  Restart("boot-2");
  EXPECT_EQ(jobs_->Find("train")->state, JobState::kEnded);
  const JobSnapshot again = Start(root.key());
  EXPECT_EQ(again.runs.size(), 2u);
}

TEST_F(JobTableTest, ARunOfAnEarlierBootEndsWhenItCanLastHaveLived) {
  const Sleeper root;
  const JobSnapshot job = Start(root.key());
  last_alive_ = clock_.node + 5 * kNsPerSecond;
  clock_.node = {kNsPerSecond};  // the new boot's
  Restart("boot-2");
  const JobSnapshot ended = *jobs_->ByRun(job.run);
  EXPECT_EQ(ended.end_node, last_alive_);
  EXPECT_EQ(ended.end_wall.ns - ended.start_wall.ns, 5 * kNsPerSecond);
  Restart("boot-2");
  EXPECT_THAT(were_open_, testing::ElementsAre(job.run)) << "told once";
}

TEST_F(JobTableTest, ARunningJobIsNotForgottenAndAnEndedOneIs) {
  const Sleeper root;
  const JobSnapshot job = Start(root.key());
  EXPECT_EQ(jobs_->Forget(job.run).code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(jobs_->EndJob(job.run, "").ok());
  EXPECT_TRUE(jobs_->Forget(job.run).ok());
  Restart();
  EXPECT_EQ(jobs_->Find("train").status().code(), absl::StatusCode::kNotFound);
}

TEST_F(JobTableTest, AnOlderRunsUploadDoesNotRewriteTheReopenedJob) {
  Sleeper root;
  const JobSnapshot first = Start(root.key());
  ASSERT_TRUE(jobs_->EndJob(first.run, "").ok());
  const JobSnapshot second = Start(root.key());
  ASSERT_NE(first.run, second.run);
  jobs_->SetState(first.run, JobState::kDone, "uploaded");
  Restart();
  EXPECT_EQ(jobs_->Find("train")->run, second.run);
  EXPECT_EQ(jobs_->Find("train")->state, JobState::kRunning);
}

TEST_F(JobTableTest, AnUnknownJobIsAnsweredWithTheKnownOnes) {
  const Sleeper root;
  Start(root.key(), "resnet");
  EXPECT_THAT(std::string(jobs_->Find("bert").status().message()), testing::HasSubstr("resnet"));
}

TEST_F(JobTableTest, ARunWhoseLastRecordsAreStillUnreadEndsAsAQuietOne) {
  Sleeper root;
  const ProcessKey process = root.key();
  const RunId run = Start(process).run;
  root.Kill();
  Restart("boot-1", {{run, process}});
  EXPECT_TRUE(ended_.empty());
  EXPECT_EQ(jobs_->ByRun(run)->state, JobState::kQuiet);
  jobs_->Tick();
  EXPECT_TRUE(ended_.empty()) << "its records are on their way";
  clock_.node.ns += 61 * kNsPerSecond;
  jobs_->Tick();
  EXPECT_EQ(ended_, std::vector<RunId>{run});
}

TEST_F(JobTableTest, AProcessThatOutlivedItsLauncherStaysInItsRun) {
  Sleeper launcher;
  const Sleeper worker;
  const RunId run = Start(launcher.key()).run;
  launcher.Kill();
  tracked_.clear();
  Restart("boot-1", {{run, worker.key()}});
  EXPECT_EQ(tracked_, std::vector<RunId>{run}) << "it is what is left to follow";
  EXPECT_EQ(jobs_->RunForSession(worker.key(), getuid(), {}).value(), run);
  EXPECT_EQ(jobs_->ByRun(run)->state, JobState::kRunning);
}

}  // namespace
}  // namespace stepscope
