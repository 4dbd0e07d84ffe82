// SPDX-License-Identifier: Apache-2.0
#include "base/proc_stat.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace stepscope {
namespace {

TEST(ProcStat, ACommMayHoldAnything) {
  const std::string tail = " S 7 1 1 0 -1 4194304 1 2 3 4 500 60 7 8 20 0 3 0 123456 1000 10\n";
  const std::optional<ProcStat> stat = ParseProcStat("42 (a) b (c)" + tail);
  ASSERT_TRUE(stat);
  EXPECT_EQ(stat->pid, Pid{42});
  EXPECT_EQ(stat->comm, "a) b (c");
  EXPECT_EQ(stat->state, 'S');
  EXPECT_EQ(stat->parent, Pid{7});
  EXPECT_EQ(stat->cpu_ticks, 560);
  EXPECT_EQ(stat->threads, 3);
  EXPECT_EQ(stat->start_ticks, 123456);
}

TEST(ProcStat, ACutLineIsNone) {
  EXPECT_FALSE(ParseProcStat(""));
  EXPECT_FALSE(ParseProcStat("42 (cut"));
  EXPECT_FALSE(ParseProcStat("42 (cut) S 7"));
}

TEST(ProcStat, TheUserOfAProcessIsNotReadFromTheNameItGaveItself) {
  char root[] = "/tmp/stepscope-proc-XXXXXX";
  ASSERT_NE(mkdtemp(root), nullptr);
  const std::filesystem::path folder = std::filesystem::path(root) / "10";
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "status") << "Name:\tx Uid:\t1001\t1001\nUmask:\t0022\nUid:\t1001\t1000\t1001\t1001\n";
  EXPECT_EQ(ReadProcUid(Pid{10}, root), 1000u);
  EXPECT_EQ(ReadProcUid(Pid{11}, root), std::nullopt);
  std::filesystem::remove_all(root);
}

TEST(ProcStat, TheUserOfAProcessIsTheOneItActsAs) {
  struct stat folder{};
  ASSERT_EQ(stat("/proc/self", &folder), 0);
  EXPECT_EQ(ReadProcUid(Pid{getpid()}), geteuid());
  EXPECT_EQ(ReadProcUid(Pid{getpid()}), folder.st_uid);
}

TEST(ProcStat, AProcessHasEndedWhenItsLastThreadHas) {
  const auto has_ended = [](char state, int threads) {
    ProcStat stat;
    stat.state = state;
    stat.threads = threads;
    return HasEnded(stat);
  };
  EXPECT_FALSE(has_ended('S', 1));
  EXPECT_TRUE(has_ended('Z', 1));
  EXPECT_TRUE(has_ended('X', 0));
  EXPECT_FALSE(has_ended('Z', 2)) << "its main thread has ended; another one goes on";
}

TEST(ProcStat, ItFindsItselfAndNobodyElse) {
  const std::optional<ProcStat> self = ReadProcStat(Pid{getpid()});
  ASSERT_TRUE(self);
  EXPECT_EQ(self->pid, Pid{getpid()});
  EXPECT_EQ(self->parent, Pid{getppid()});
  EXPECT_GT(self->start_ticks, 0);
  EXPECT_FALSE(ReadProcStat(Pid{getpid()}, "/nonexistent"));
}

}  // namespace
}  // namespace stepscope
