// SPDX-License-Identifier: Apache-2.0
// Files that are cut, garbled, huge, empty or gone never harm a reader, and never become values that nobody wrote.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <random>

#include "base/proc_stat.h"
#include "daemon/collector/host/job_facts.h"
#include "daemon/collector/host/lustre.h"
#include "daemon/collector/host/network_devices.h"
#include "daemon/collector/host/neuron_sysfs.h"
#include "daemon/collector/host/proc_node.h"
#include "daemon/collector/host/proc_process.h"
#include "tests/unit/host/device_trees.h"

namespace stepscope {
namespace {

constexpr int kRounds = 150;

/// Refuses what no kernel says.
class StrictSink final : public MetricSink {
 public:
  void Add(const MetricValue& value) override {
    EXPECT_TRUE(std::isfinite(value.value) && value.value >= 0) << value.name;
    EXPECT_NE(value.name.find('.'), std::string_view::npos);
    EXPECT_LT(value.name.size(), 160U);
    ++values_;
  }
  int64_t values() const { return values_; }

 private:
  int64_t values_ = 0;
};

class DamagedFiles : public testing::Test {
 protected:
  DamagedFiles() {
    process_ = tree_.AddProcess(42, "");
    WriteNodeFiles(tree_);
    WriteProcessFiles(tree_, process_);
    WriteNetworkDevices(tree_);
    WriteLustre(tree_);
    WriteNeuron(tree_, "2.24.7.0");
    WriteTrainingConfig(tree_);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(tree_.root())) {
      if (entry.is_regular_file()) files_.push_back(entry.path().string().substr(tree_.root().size()));
    }
    std::ranges::sort(files_);
  }

  /// Asks every source once; returns how many values they gave.
  int64_t ReadAll() const {
    StrictSink sink;
    const std::vector<ProcessKey> processes = {process_};
    ProcNode node({tree_.root()});
    ProcProcess process({tree_.root()});
    NetworkDevices network({tree_.root()});
    Lustre lustre({tree_.root()});
    NeuronSysfs neuron({tree_.root()});
    for (MetricSource* source : std::initializer_list<MetricSource*>{&node, &process, &network, &lustre, &neuron}) {
      source->Start();
      source->Sample(processes, &sink);
      EXPECT_FALSE(source->State().state.empty());
      source->Stop();
    }
    ReadTrainingFacts(tree_.root());
    ReadInstanceFacts(tree_.root());
    return sink.values();
  }

  const FakeTree tree_;
  ProcessKey process_;
  std::vector<std::string> files_;
};

std::string Damaged(std::string text, std::mt19937& random) {
  const auto below = [&random](size_t bound) { return bound == 0 ? 0 : random() % bound; };
  switch (below(6)) {
    case 0:
      return text.substr(0, below(text.size()));
    case 1:
      for (size_t i = 0; i < 1 + below(8) && !text.empty(); ++i) text[below(text.size())] = static_cast<char>(random());
      return text;
    case 2:
      return text.insert(below(text.size()), std::string(below(64), "9-:.,\"{[ \n\t"[below(11)]));
    case 3:
      return text + text + text;
    case 4:
      return std::string(below(3) * 300'000, static_cast<char>(random()));
    default:
      return "";
  }
}

TEST_F(DamagedFiles, AreReadWithoutHarm) {
  const int64_t whole = ReadAll();
  ASSERT_GT(whole, 60);
  std::mt19937 random(20260101);
  int64_t fewest = whole;
  for (int round = 0; round < kRounds; ++round) {
    const std::string& file = files_[random() % files_.size()];
    const std::string text = ReadProcFile(tree_.root() + file);
    const std::string damaged = Damaged(text, random);
    SCOPED_TRACE(fmt::format("round {}: {}", round, file));
    tree_.Write(file, damaged);
    fewest = std::min(fewest, ReadAll());
    tree_.Write(file, text);
  }
  EXPECT_LT(fewest, whole);
  EXPECT_EQ(ReadAll(), whole) << "the tree is whole again";
}

TEST_F(DamagedFiles, VanishOneAfterTheOther) {
  int64_t before = ReadAll();
  for (const std::string& file : files_) {
    tree_.Remove(file);
    const int64_t now = ReadAll();
    // The network of process 1 is replaced by the daemon's own; nothing else may grow.
    EXPECT_LE(now, before) << file;
    before = now;
  }
  EXPECT_EQ(before, 0);
}

TEST_F(DamagedFiles, MayBeDirectoriesAndDirectoriesFiles) {
  for (const std::string& file : files_) {
    tree_.Remove(file);
    std::filesystem::create_directories(tree_.root() + file);
  }
  EXPECT_EQ(ReadAll(), 0);
  for (const char* folder : {"/sys/class/infiniband", "/sys/devices/virtual/neuron_device", "/proc/42", "/sys/kernel/debug"}) {
    tree_.Remove(folder);
    tree_.Write(folder, "a file");
  }
  EXPECT_EQ(ReadAll(), 0);
}

}  // namespace
}  // namespace stepscope
