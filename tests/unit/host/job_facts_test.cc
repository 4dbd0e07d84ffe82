// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/job_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/unit/host/device_trees.h"

namespace stepscope {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kHyperparameters = "/opt/ml/input/config/hyperparameters.json";

TEST(JobFacts, HyperparametersAreFactsAndStringsInsideStringsAreUnpacked) {
  const FakeTree tree;
  WriteTrainingConfig(tree);
  const JobFacts facts = ReadTrainingFacts(tree.root());
  EXPECT_THAT(facts.problems, IsEmpty());
  EXPECT_EQ(facts.facts.at("hyperparameter.optimizer"), "adam");
  EXPECT_EQ(facts.facts.at("hyperparameter.lr"), "3e-4");
  EXPECT_EQ(facts.facts.at("hyperparameter.layers"), "12");
  EXPECT_EQ(facts.facts.at("hyperparameter.note"), "\"a") << "a quote that opens nothing";
}

TEST(JobFacts, SecretsAreHidden) {
  const FakeTree tree;
  WriteTrainingConfig(tree);
  const JobFacts facts = ReadTrainingFacts(tree.root());
  EXPECT_EQ(facts.facts.at("hyperparameter.hf_token"), "hidden");
  EXPECT_EQ(facts.facts.at("hyperparameter.AWS_Secret_Key"), "hidden");
}

TEST(JobFacts, ThePlatformSaysHostsInstanceTypeAndChannels) {
  const FakeTree tree;
  WriteTrainingConfig(tree);
  const JobFacts facts = ReadTrainingFacts(tree.root());
  EXPECT_EQ(facts.facts.at("sagemaker.current_host"), "algo-1");
  EXPECT_EQ(facts.facts.at("sagemaker.hosts"), "algo-1, algo-2");
  EXPECT_EQ(facts.facts.at("sagemaker.network_interface"), "eth0");
  EXPECT_EQ(facts.facts.at("instance.type"), "ml.p4d.24xlarge");
  EXPECT_EQ(facts.facts.at("sagemaker.channel.train"), "File, FullyReplicated");
}

TEST(JobFacts, AnInstanceIsNamedByItsFirmware) {
  const FakeTree tree;
  WriteTrainingConfig(tree);
  const JobFacts facts = ReadInstanceFacts(tree.root());
  EXPECT_EQ(facts.facts,
            (std::map<std::string, std::string>{
                {"instance.vendor", "Amazon EC2"}, {"instance.type", "p4d.24xlarge"}, {"instance.id", "i-0123456789abcdef0"}}));
}

TEST(JobFacts, AnAssetTagOfAnotherVendorIsNoInstanceAndEmptyPhrasesAreNothing) {
  const FakeTree tree;
  tree.Write("/sys/class/dmi/id/sys_vendor", "Example Boards\n");
  tree.Write("/sys/class/dmi/id/product_name", "To be filled by O.E.M.\n");
  tree.Write("/sys/class/dmi/id/board_asset_tag", "asset-7\n");
  EXPECT_EQ(ReadInstanceFacts(tree.root()).facts, (std::map<std::string, std::string>{{"instance.vendor", "Example Boards"}}));
}

TEST(JobFacts, NoFilesMeanNoFactsAndNoProblem) {
  const FakeTree tree;
  EXPECT_THAT(ReadTrainingFacts(tree.root()).facts, IsEmpty());
  EXPECT_THAT(ReadTrainingFacts(tree.root()).problems, IsEmpty());
  EXPECT_THAT(ReadInstanceFacts(tree.root()).facts, IsEmpty());
}

TEST(JobFacts, AFileThatIsNotAnObjectIsAProblemWithItsName) {
  const FakeTree tree;
  for (const char* text : {"{", "[1, 2]", "not JSON", "{\"a\": \"\xff\"}"}) {
    tree.Write(kHyperparameters, text);
    const JobFacts facts = ReadTrainingFacts(tree.root());
    EXPECT_THAT(facts.facts, IsEmpty()) << text;
    EXPECT_THAT(facts.problems, ElementsAre(tree.root() + kHyperparameters + " is not a JSON object")) << text;
  }
}

TEST(JobFacts, TooLargeTooDeepAndTooManyAreBounded) {
  const FakeTree tree;
  tree.Write(kHyperparameters, "{\"a\": \"" + std::string(2 << 20, 'x') + "\"}");
  EXPECT_THAT(ReadTrainingFacts(tree.root()).problems, ElementsAre(HasSubstr("is larger than 1048576 bytes")));

  tree.Write(kHyperparameters, "{\"deep\": " + std::string(400'000, '[') + std::string(400'000, ']') + ", \"lr\": 1}");
  EXPECT_EQ(ReadTrainingFacts(tree.root()).facts.at("hyperparameter.lr"), "1");

  tree.Write(kHyperparameters, "{\"long\": \"" + std::string(5000, 'x') + "\"}");
  EXPECT_EQ(ReadTrainingFacts(tree.root()).facts.at("hyperparameter.long"), std::string(1024, 'x') + "…");

  std::string many = "{";
  for (int i = 0; i < 1000; ++i) many += fmt::format("{}\"p{}\": {}", i == 0 ? "" : ", ", i, i);
  tree.Write(kHyperparameters, many + "}");
  EXPECT_EQ(ReadTrainingFacts(tree.root()).facts.size(), 200U);
  EXPECT_THAT(ReadTrainingFacts(tree.root()).problems, ElementsAre(HasSubstr("has 1000 entries; 200 are kept")));
}

TEST(JobFacts, OnlyAProcessInTheDaemonsMountNamespaceSharesItsFiles) {
  EXPECT_TRUE(SharesFiles({Pid{getpid()}, 0}, "/proc"));
  const FakeTree tree;
  tree.Write("/self/ns/x", "");
  tree.Write("/7/ns/x", "");
  EXPECT_FALSE(SharesFiles({Pid{7}, 0}, tree.root())) << "it cannot be told";
  std::filesystem::create_symlink("mnt:[1]", tree.root() + "/self/ns/mnt");
  std::filesystem::create_symlink("mnt:[2]", tree.root() + "/7/ns/mnt");
  EXPECT_FALSE(SharesFiles({Pid{7}, 0}, tree.root()));
}

}  // namespace
}  // namespace stepscope
