// SPDX-License-Identifier: Apache-2.0
#include "daemon/capabilities.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <thread>

namespace stepscope {
namespace {

const CapabilitySet kRoot = {"cap_bpf", "cap_chown", "cap_dac_override", "cap_dac_read_search", "cap_perfmon", "cap_sys_ptrace"};
const CapabilitySet kDocker = {"cap_chown", "cap_dac_override", "cap_kill"};

TEST(Capabilities, ASystemDaemonKeepsWhatItNeedsForEveryUser) {
  const CapabilityNeeds needs{.uid = 900, .kernel_programs = true, .other_users = true};
  EXPECT_EQ(ToKeep(needs, kRoot), (CapabilitySet{"cap_bpf", "cap_perfmon", "cap_sys_ptrace", "cap_dac_read_search"}));
}

TEST(Capabilities, APrivateDaemonOfAUserKeepsOnlyTheKernelSide) {
  EXPECT_EQ(ToKeep({.uid = 900, .kernel_programs = true}, kRoot), (CapabilitySet{"cap_bpf", "cap_perfmon"}));
  EXPECT_EQ(ToKeep({.uid = 900}, kRoot), CapabilitySet{}) << "programs that did not load are not attached again";
}

TEST(Capabilities, RootMayStillLookIntoProgramsOfRoot) {
  EXPECT_EQ(ToKeep({.uid = 0}, kRoot), (CapabilitySet{"cap_sys_ptrace", "cap_dac_read_search"}));
  EXPECT_EQ(ToKeep({.uid = 0}, kDocker), kDocker) << "without cap_sys_ptrace only an equal set opens them";
}

TEST(Capabilities, AFolderOfAnotherUserNeedsAnOverride) {
  EXPECT_EQ(ToKeep({.uid = 900, .foreign_folders = true}, kRoot), (CapabilitySet{"cap_dac_override"}));
}

TEST(Capabilities, TextIsReadable) {
  EXPECT_EQ(CapabilityText({}), "none");
  EXPECT_EQ(CapabilityText({"cap_bpf", "cap_perfmon"}), "cap_bpf, cap_perfmon");
}

// In a child: what is given up does not come back.
int DropInChild() {
  std::promise<void> end;
  std::shared_future<void> ended(end.get_future());
  std::vector<std::thread> threads;
  for (int i = 0; i < 5; ++i) threads.emplace_back([ended] { ended.wait(); });
  const bool dropped = DropTo({}).ok();
  int left = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    for (std::string line; std::getline(status, line);) {
      const bool is_set = line.starts_with("CapEff:") || line.starts_with("CapPrm:") || line.starts_with("CapInh:");
      if (is_set && line.find_first_not_of("0", line.find('\t') + 1) != std::string::npos) ++left;
    }
  }
  end.set_value();
  for (std::thread& thread : threads) thread.join();
  return dropped && left == 0 ? 0 : 1;
}

TEST(Capabilities, EveryThreadGivesThemUp) {
  const pid_t child = fork();
  if (child == 0) _exit(DropInChild());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace stepscope
