// SPDX-License-Identifier: Apache-2.0
// Which job processes of several users, containers and pods come to belong to, on a procfs the test writes.
#include "daemon/jobs/process_claim.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include "daemon/jobs/cgroup_path.h"
#include "daemon/jobs/process_tree.h"
#include "tests/unit/jobs/fake_proc.h"
#include "tests/unit/pipeline/temp_store.h"

namespace stepscope {
namespace {

constexpr uint32_t kAda = 1000, kBob = 1001;

std::string Pod(char pod, char container) {
  const std::string uid = std::string(8, pod) + "-1111-2222-3333-444455556666";
  return "0::/kubepods/burstable/pod" + uid + "/" + std::string(64, container) + "\n";
}
std::string Docker(char container) { return "0::/system.slice/docker-" + std::string(64, container) + ".scope\n"; }

class ProcessClaimTest : public testing::Test {
 protected:
  ProcessClaimTest() { Restart("boot-1"); }
  void Restart(const std::string& boot) {
    jobs_ = std::make_unique<JobTable>(
        store_.get(), &clock_, boot, "node-a",
        JobTable::Hooks{
            [this](RunId, ProcessKey root) { tracked_.push_back(root); }, {}, [this](RunId run) { ended_.push_back(run); }},
        proc_.root());
    EXPECT_TRUE(jobs_->Load().ok());
  }
  /// The job a session of that process joins.
  JobSnapshot Joined(const FakeProcess& process, const std::map<std::string, std::string>& facts = {}) {
    const auto run = jobs_->RunForSession(proc_.Add(process), process.uid, facts);
    EXPECT_TRUE(run.ok()) << run.status();
    return *jobs_->ByRun(*run);
  }

  FakeProc proc_;
  TempStore store_;
  FakeClock clock_;
  std::vector<ProcessKey> tracked_;
  std::vector<RunId> ended_;
  std::unique_ptr<JobTable> jobs_;
};

TEST_F(ProcessClaimTest, TwoUsersWithOneIdHaveTwoJobs) {
  const JobSnapshot ada = Joined({.pid = 10, .uid = kAda}, {{"STEPSCOPE_JOB", "train"}});
  const JobSnapshot bob = Joined({.pid = 11, .uid = kBob}, {{"STEPSCOPE_JOB", "train"}});
  EXPECT_NE(ada.run, bob.run);
  EXPECT_EQ(ada.job, "1000.run.train");
  EXPECT_EQ(bob.job, "1001.run.train");
  EXPECT_EQ(Joined({.pid = 12, .uid = kAda}, {{"STEPSCOPE_JOB", "train"}}).run, ada.run);
}

TEST_F(ProcessClaimTest, TwoContainersOfOnePodAreOneJob) {
  const JobSnapshot first = Joined({.pid = 10, .cgroup = Pod('a', '1')}, {{"TORCHELASTIC_RUN_ID", "x"}});
  const JobSnapshot second = Joined({.pid = 11, .cgroup = Pod('a', '2')}, {{"TORCHELASTIC_RUN_ID", "x"}});
  EXPECT_EQ(first.run, second.run);
  EXPECT_EQ(first.tenant, "aaaaaaaa-1111-2222-3333-444455556666");
}

TEST_F(ProcessClaimTest, TwoPodsWithOneIdAreTwoJobs) {
  const JobSnapshot first = Joined({.pid = 10, .cgroup = Pod('a', '1')}, {{"TORCHELASTIC_RUN_ID", "x"}});
  const JobSnapshot second = Joined({.pid = 11, .cgroup = Pod('b', '1')}, {{"TORCHELASTIC_RUN_ID", "x"}});
  EXPECT_NE(first.run, second.run);
}

TEST_F(ProcessClaimTest, RootOfAContainerIsNotRootOfTheHost) {
  const JobSnapshot host = Joined({.pid = 10, .uid = 0}, {{"SLURM_JOB_ID", "7"}});
  const JobSnapshot first = Joined({.pid = 11, .uid = 0, .cgroup = Docker('1')}, {{"SLURM_JOB_ID", "7"}});
  const JobSnapshot second = Joined({.pid = 12, .uid = 0, .cgroup = Docker('2')}, {{"SLURM_JOB_ID", "7"}});
  EXPECT_THAT((std::set<RunId>{host.run, first.run, second.run}), testing::SizeIs(3));
}

TEST(ReadCgroups, OnAMachineWithoutCgroupsEverythingIsTheHost) {
  FakeProc proc;
  const ProcessKey process = proc.Add({.pid = 71, .cgroup = ""});
  EXPECT_EQ(ReadCgroups(process, proc.root()), CgroupPlace{});
  proc.Remove(71);
  EXPECT_EQ(ReadCgroups(process, proc.root()), std::nullopt);
}

TEST_F(ProcessClaimTest, ProcessesGoneBeforeTheyWereLookedAtHaveAJobOfTheirOwn) {
  const auto gone = [this](int32_t pid, uint32_t uid, const Facts& facts) {
    const auto run = jobs_->RunForSession({Pid{pid}, 0}, uid, facts);
    EXPECT_TRUE(run.ok()) << run.status();
    return *jobs_->ByRun(*run);
  };
  const Facts train = {{"STEPSCOPE_JOB", "train"}};
  const JobSnapshot host = Joined({.pid = 10}, train);
  const JobSnapshot first = gone(11, kAda, train);
  EXPECT_NE(first.run, host.run);
  EXPECT_EQ(first.tenant, "unknown");
  EXPECT_EQ(first.job, "1000.api.train-unseen");
  EXPECT_EQ(gone(11, kAda, train).run, first.run) << "also with a pid used again";
  EXPECT_EQ(gone(12, kAda, {}).job, "1000.api.unseen");
  EXPECT_EQ(gone(12, kBob, train).job, "1001.api.train-unseen");
  EXPECT_EQ(jobs_->Find("train")->run, host.run);
  EXPECT_THAT(tracked_, testing::ElementsAre(ProcessKey{Pid{10}, 1010}));
  for (int32_t pid = 20; pid < 3000; ++pid) ASSERT_EQ(gone(pid, kAda, train).run, first.run) << "however many";
}

TEST_F(ProcessClaimTest, APidUsedAgainIsAnotherProcess) {
  const JobSnapshot first = Joined({.pid = 10, .start_ticks = 500});
  const JobSnapshot second = Joined({.pid = 10, .start_ticks = 900});
  EXPECT_NE(first.run, second.run);
  EXPECT_EQ(second.id, "10-900");
}

TEST_F(ProcessClaimTest, AGoneProcessDoesNotInheritTheParentsOfWhoHasItsPidNow) {
  const JobSnapshot job = Joined({.pid = 10}, {{"STEPSCOPE_JOB", "train"}});
  proc_.Add({.pid = 11, .parent = 10});
  EXPECT_NE(jobs_->RunForSession({Pid{11}, 0}, kAda, {}).value(), job.run);
  EXPECT_NE(jobs_->RunForSession({Pid{11}, 77}, kAda, {}).value(), job.run);
}

TEST_F(ProcessClaimTest, IdsAbove32768AreOrdinary) {
  proc_.Add({.pid = 4'194'000});
  const JobSnapshot job = Joined({.pid = 4'194'303, .parent = 4'194'000}, {{"RANK", "1"}, {"TORCHELASTIC_RUN_ID", "none"}});
  EXPECT_EQ(job.id, "4194000-4195000");
  EXPECT_EQ(job.ranks.at(0).process.pid, Pid{4'194'303});
}

TEST_F(ProcessClaimTest, TheKernelsSlurmJobBeatsTheEnvironments) {
  const std::string step = "0::/system.slice/slurmstepd.scope/job_77/step_0/user/task_0\n";
  EXPECT_EQ(Joined({.pid = 10, .cgroup = step}, {{"SLURM_JOB_ID", "78"}}).id, "77");
  EXPECT_EQ(Joined({.pid = 11, .cgroup = step}).job, "1000.slurm.77");
}

TEST_F(ProcessClaimTest, ProcessesOfAPodWithoutAnyIdAreItsJob) {
  const JobSnapshot first = Joined({.pid = 10, .cgroup = Pod('a', '1')});
  EXPECT_EQ(first.kind, "k8s");
  EXPECT_EQ(first.id, "aaaaaaaa-1111-2222-3333-444455556666");
  EXPECT_EQ(Joined({.pid = 11, .cgroup = Pod('a', '2')}).run, first.run);
  EXPECT_EQ(Joined({.pid = 12, .cgroup = Pod('a', '2')}, {{"TORCHX_JOB_ID", "app"}}).kind, "torchx");
}

TEST_F(ProcessClaimTest, RanksWithoutAnIdMeetAtTheirLauncher) {
  const std::map<std::string, std::string> rank0 = {{"RANK", "0"}, {"TORCHELASTIC_RUN_ID", "none"}};
  const std::map<std::string, std::string> rank1 = {{"RANK", "1"}, {"TORCHELASTIC_RUN_ID", "none"}};
  proc_.Add({.pid = 10, .environment = {"HOME=/home/ada"}});                                            // the shell
  const ProcessKey launcher = proc_.Add({.pid = 11, .parent = 10, .environment = {"HOME=/home/ada"}});  // torchrun
  const FakeProcess worker = {.pid = 12, .parent = 11, .environment = {"TORCHELASTIC_RUN_ID=none", "RANK=0"}};
  proc_.Add(worker);
  const FakeProcess loader = {.pid = 14, .parent = 12, .environment = {"TORCHELASTIC_RUN_ID=none", "RANK=0"}};
  const JobSnapshot first = Joined(loader, rank0);
  EXPECT_EQ(Joined(worker, rank0).run, first.run);
  EXPECT_EQ(Joined({.pid = 13, .parent = 11, .environment = {"TORCHELASTIC_RUN_ID=none", "RANK=1"}}, rank1).run, first.run);
  EXPECT_EQ(first.kind, "api");
  EXPECT_EQ(first.id, "11-1011");
  EXPECT_THAT(tracked_, testing::ElementsAre(launcher));
  EXPECT_THAT(jobs_->ByRun(first.run)->ranks, testing::SizeIs(2));
}

TEST_F(ProcessClaimTest, ALauncherOfAnotherUserOrContainerIsNone) {
  const std::vector<std::string> marked = {"OMPI_COMM_WORLD_RANK=0"};
  proc_.Add({.pid = 10, .uid = 0});
  EXPECT_EQ(Joined({.pid = 11, .parent = 10, .environment = marked}, {{"OMPI_COMM_WORLD_RANK", "0"}}).id, "11-1011");
  proc_.Add({.pid = 20});
  EXPECT_EQ(Joined({.pid = 21, .parent = 20, .cgroup = Docker('1'), .environment = marked}, {{"OMPI_COMM_WORLD_RANK", "0"}}).id,
            "21-1021");
}

TEST_F(ProcessClaimTest, ARequeuedJobIsANewRunAndEndsTheOneBefore) {
  const JobSnapshot first = Joined({.pid = 10}, {{"SLURM_JOB_ID", "7"}});
  const JobSnapshot second = Joined({.pid = 11}, {{"SLURM_JOB_ID", "7"}, {"SLURM_RESTART_COUNT", "1"}});
  EXPECT_NE(first.run, second.run);
  EXPECT_EQ(second.attempt, 1u);
  EXPECT_THAT(second.runs, testing::ElementsAre(first.run, second.run));
  EXPECT_EQ(jobs_->ByRun(first.run)->state, JobState::kEnded);
  EXPECT_THAT(ended_, testing::ElementsAre(first.run));
}

TEST_F(ProcessClaimTest, AnElasticRestartStaysInItsRun) {
  const JobSnapshot first = Joined({.pid = 10}, {{"TORCHELASTIC_RUN_ID", "x"}, {"RANK", "0"}});
  proc_.Remove(10);
  const JobSnapshot again =
      Joined({.pid = 11}, {{"TORCHELASTIC_RUN_ID", "x"}, {"RANK", "0"}, {"TORCHELASTIC_RESTART_COUNT", "1"}});
  EXPECT_EQ(again.run, first.run);
  ASSERT_THAT(again.ranks, testing::SizeIs(1));
  EXPECT_EQ(again.ranks[0].restart, 1);
  EXPECT_EQ(again.ranks[0].process.pid, Pid{11});
}

TEST_F(ProcessClaimTest, AJobResumedAfterARebootIsOneJobOfTwoRuns) {
  const JobSnapshot first = Joined({.pid = 10, .start_ticks = 500}, {{"SLURM_JOB_ID", "7"}});
  Restart("boot-2");
  // The same pid and start time by chance: another boot's process all the same.
  const JobSnapshot second = Joined({.pid = 10, .start_ticks = 500}, {{"SLURM_JOB_ID", "7"}});
  EXPECT_NE(first.run, second.run);
  EXPECT_EQ(first.job, second.job);
  EXPECT_THAT(second.runs, testing::ElementsAre(first.run, second.run));
  EXPECT_EQ(second.boot_id, "boot-2");
  EXPECT_EQ(jobs_->ByRun(first.run)->boot_id, "boot-1");
  Restart("boot-2");
  EXPECT_THAT(jobs_->ByRun(first.run)->runs, testing::ElementsAre(first.run, second.run));
  EXPECT_EQ(jobs_->ByRun(second.run)->state, JobState::kRunning);
}

TEST_F(ProcessClaimTest, ForgettingAnOlderRunKeepsTheJob) {
  const JobSnapshot first = Joined({.pid = 10}, {{"SLURM_JOB_ID", "7"}});
  const JobSnapshot second = Joined({.pid = 11}, {{"SLURM_JOB_ID", "7"}, {"SLURM_RESTART_COUNT", "1"}});
  ASSERT_TRUE(jobs_->Forget(first.run).ok());
  Restart("boot-1");
  EXPECT_THAT(jobs_->ByRun(second.run)->runs, testing::ElementsAre(second.run));
  EXPECT_EQ(jobs_->ByRun(second.run)->state, JobState::kRunning);
}

TEST_F(ProcessClaimTest, AStartedJobIsOfItsRootsTenant) {
  StartJobSpec spec;
  spec.id = "train";
  spec.root = proc_.Add({.pid = 10, .cgroup = Docker('1')});
  EXPECT_EQ(jobs_->StartJob(spec)->tenant, std::string(64, '1'));
  proc_.Remove(10);
  EXPECT_EQ(jobs_->StartJob(spec).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace stepscope
