// SPDX-License-Identifier: Apache-2.0
// From the environment a launcher makes, through the agent's allow-list, to job and rank: what each scheduler's processes are
// taken for, and what of their environment ever leaves them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "agent/core/facts.h"
#include "daemon/jobs/job_identity.h"
#include "daemon/jobs/rank_facts.h"

namespace stepscope {
namespace {

using Environment = std::vector<std::string>;

/// What an agent in a process with this environment says in its hello.
std::string Sent(const Environment& environment) {
  std::vector<const char*> entries;
  for (const std::string& entry : environment) entries.push_back(entry.c_str());
  entries.push_back(nullptr);
  std::string bytes(8192, '\0');
  bytes.resize(agent::CollectFacts(entries.data(), bytes.data(), bytes.size()));
  return bytes;
}

Facts FactsOf(const Environment& environment) {
  const std::string bytes = Sent(environment);
  Facts facts;
  for (size_t at = 0; at < bytes.size();) {
    const std::string fact = bytes.c_str() + at;
    at += fact.size() + 1;
    facts[fact.substr(0, fact.find('='))] = fact.substr(fact.find('=') + 1);
  }
  return facts;
}

struct Launch {
  std::string name;
  Environment environment;
  std::string kind;  ///< empty = no id
  std::string id;
  uint32_t attempt = 0;
  int32_t rank = -1;
  int32_t local_rank = -1;
  int32_t world_size = -1;
  int32_t restart = 0;
};

std::vector<Launch> Launches() {
  return {
      {"plain", {"RANK=2", "WORLD_SIZE=4", "MASTER_ADDR=10.0.0.1"}, "", "", 0, 2, -1, 4, 0},
      {"nothing at all", {"HOME=/home/ada"}, "", "", 0, -1, -1, -1, 0},
      {"torchrun, an id",
       {"RANK=9", "LOCAL_RANK=1", "WORLD_SIZE=16", "GROUP_RANK=1", "TORCHELASTIC_RUN_ID=bert-7", "TORCHELASTIC_RESTART_COUNT=3",
        "TORCHELASTIC_MAX_RESTARTS=5"},
       "torchelastic",
       "bert-7",
       0,
       9,
       1,
       16,
       3},
      {"torchrun, its default id", {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=2", "TORCHELASTIC_RUN_ID=none"}, "", "", 0, 0, 0, 2, 0},
      {"torchrun, an empty id", {"RANK=0", "LOCAL_RANK=0", "WORLD_SIZE=2", "TORCHELASTIC_RUN_ID="}, "", "", 0, 0, 0, 2, 0},
      {"torchrun under TorchX",
       {"RANK=3", "LOCAL_RANK=3", "WORLD_SIZE=8", "TORCHELASTIC_RUN_ID=app-1", "TORCHX_JOB_ID=kubernetes://torchx/default:app-1"},
       "torchx",
       "kubernetes://torchx/default:app-1",
       0,
       3,
       3,
       8,
       0},
      {"srun, requeued",
       {"SLURM_JOB_ID=77", "SLURM_STEP_ID=0", "SLURM_PROCID=5", "SLURM_LOCALID=1", "SLURM_NTASKS=16", "SLURM_RESTART_COUNT=2"},
       "slurm",
       "77",
       2,
       5,
       1,
       16,
       0},
      {"torchrun in a Slurm step",
       {"SLURM_JOB_ID=77", "SLURM_PROCID=1", "SLURM_LOCALID=0", "SLURM_NTASKS=2", "RANK=11", "LOCAL_RANK=3", "WORLD_SIZE=16",
        "TORCHELASTIC_RUN_ID=77"},
       "slurm",
       "77",
       0,
       11,
       3,
       16,
       0},
      {"a rank without its local rank does not take Slurm's",
       {"SLURM_JOB_ID=77", "SLURM_PROCID=1", "SLURM_LOCALID=6", "RANK=11"},
       "slurm",
       "77",
       0,
       11,
       -1,
       -1,
       0},
      {"mpirun",
       {"OMPI_COMM_WORLD_RANK=6", "OMPI_COMM_WORLD_LOCAL_RANK=2", "OMPI_COMM_WORLD_SIZE=8", "OMPI_UNIVERSE_SIZE=8"},
       "",
       "",
       0,
       6,
       2,
       8,
       0},
      {"mpirun in Slurm",
       {"SLURM_JOB_ID=5", "SLURM_PROCID=0", "OMPI_COMM_WORLD_RANK=6", "OMPI_COMM_WORLD_LOCAL_RANK=2", "OMPI_COMM_WORLD_SIZE=8"},
       "slurm",
       "5",
       0,
       6,
       2,
       8,
       0},
      {"SageMaker, torchrun",
       {"TRAINING_JOB_NAME=resnet-2024", "SM_CURRENT_HOST=algo-2", "SM_HOSTS=[\"algo-1\",\"algo-2\"]", "RANK=9", "LOCAL_RANK=1",
        "WORLD_SIZE=16"},
       "sagemaker",
       "resnet-2024",
       0,
       9,
       1,
       16,
       0},
      {"SageMaker, one process a host",
       {"TRAINING_JOB_NAME=resnet-2024", "SM_CURRENT_HOST=algo-2", "SM_HOSTS=[\"algo-1\", \"algo-2\", \"algo-3\"]"},
       "sagemaker",
       "resnet-2024",
       0,
       1,
       0,
       3,
       0},
      {"SageMaker, a host of another list",
       {"TRAINING_JOB_NAME=r", "SM_CURRENT_HOST=algo-9", "SM_HOSTS=[\"algo-1\"]"},
       "sagemaker",
       "r",
       0,
       -1,
       -1,
       -1,
       0},
      {"Volcano", {"VC_TASK_INDEX=4", "VK_TASK_INDEX=4", "VC_WORKER_NUM=8"}, "", "", 0, 4, -1, -1, 0},
      {"Volcano, an older one", {"VK_TASK_INDEX=4"}, "", "", 0, 4, -1, -1, 0},
      {"Volcano with torchrun", {"VC_TASK_INDEX=1", "RANK=8", "LOCAL_RANK=0", "WORLD_SIZE=16"}, "", "", 0, 8, 0, 16, 0},
      {"an indexed Kubernetes job", {"JOB_COMPLETION_INDEX=3"}, "", "", 0, 3, -1, -1, 0},
      {"--job wins",
       {"STEPSCOPE_JOB=mine", "SLURM_JOB_ID=77", "TORCHX_JOB_ID=x", "TRAINING_JOB_NAME=y", "TORCHELASTIC_RUN_ID=z"},
       "run",
       "mine",
       0,
       -1,
       -1,
       -1,
       0},
      {"Slurm before TorchX before SageMaker",
       {"SLURM_JOB_ID=none", "TORCHX_JOB_ID=x", "TRAINING_JOB_NAME=y"},
       "torchx",
       "x",
       0,
       -1,
       -1,
       -1,
       0},
      {"no numbers",
       {"RANK=one", "OMPI_COMM_WORLD_RANK=", "SLURM_PROCID=-1", "VC_TASK_INDEX=99999999999", "SLURM_JOB_ID=3",
        "SLURM_RESTART_COUNT=-4"},
       "slurm",
       "3",
       0,
       -1,
       -1,
       -1,
       0},
  };
}

TEST(LauncherEnvironment, GivesJobAndRank) {
  for (const Launch& launch : Launches()) {
    SCOPED_TRACE(launch.name);
    const Facts facts = FactsOf(launch.environment);
    const auto identity = IdentityFromFacts(facts).value_or(JobIdentity{});
    EXPECT_EQ(identity.kind, launch.kind);
    EXPECT_EQ(identity.id, launch.id);
    EXPECT_EQ(identity.attempt, launch.attempt);
    const RankFacts rank = RankFromFacts(facts);
    EXPECT_EQ(rank.rank, launch.rank);
    EXPECT_EQ(rank.local_rank, launch.local_rank);
    EXPECT_EQ(rank.world_size, launch.world_size);
    EXPECT_EQ(rank.restart, launch.restart);
  }
}

TEST(LauncherEnvironment, SaysHowManyNodesTheJobHas) {
  const auto nodes = [](const Environment& environment) { return NodesFromFacts(FactsOf(environment)); };
  EXPECT_EQ(nodes({"RANK=0", "WORLD_SIZE=16"}), 0);
  EXPECT_EQ(nodes({"RANK=0", "WORLD_SIZE=16", "GROUP_WORLD_SIZE=2"}), 2);
  EXPECT_EQ(nodes({"SLURM_JOB_ID=7", "SLURM_NNODES=4", "GROUP_WORLD_SIZE=1"}), 4) << "each node its own torchrun, one job";
  EXPECT_EQ(nodes({"TRAINING_JOB_NAME=r", "SM_HOSTS=[\"algo-1\", \"algo-2\"]", "GROUP_WORLD_SIZE=1"}), 2);
  EXPECT_EQ(nodes({"SM_HOSTS=[\"algo-1\", \"al"}), 0);
  EXPECT_EQ(nodes({"SLURM_NNODES=many", "GROUP_WORLD_SIZE=-1"}), 0);
}

TEST(LauncherEnvironment, NothingOutsideTheListEverLeavesAProcess) {
  Environment environment = {"AWS_SECRET_ACCESS_KEY=leak", "HOME=leak",      "RANK_SECRET=leak",      "XRANK=leak", "rank=leak",
                             "SLURM_JOB_ID_=leak",         "SM_HOSTS2=leak", "STEPSCOPE_SOCKET=leak", "RANKleak",   "=leak"};
  for (const Launch& launch : Launches()) {
    for (const std::string& entry : launch.environment) environment.push_back(entry);
  }
  environment.push_back("PASSWORD=RANK=leak");
  EXPECT_EQ(Sent(environment).find("leak"), std::string::npos);
}

TEST(LauncherEnvironment, WhatTheDaemonDoesNotReadIsNotSentEither) {
  const Facts facts = FactsOf({"MASTER_ADDR=a", "GROUP_RANK=1", "LOCAL_WORLD_SIZE=2", "SLURM_NODELIST=a", "SLURM_STEP_ID=1",
                               "TORCHX_RANK0_HOST=a", "VC_WORKER_HOSTS=a", "SM_TRAINING_ENV={}", "OMPI_UNIVERSE_SIZE=3"});
  EXPECT_THAT(facts, testing::IsEmpty());
}

TEST(LauncherEnvironment, AValueThatDoesNotFitIsLeftOutWhole) {
  EXPECT_THAT(FactsOf({"SM_HOSTS=" + std::string(600, 'x'), "RANK=1"}), testing::ElementsAre(testing::Pair("RANK", "1")));
}

}  // namespace
}  // namespace stepscope
