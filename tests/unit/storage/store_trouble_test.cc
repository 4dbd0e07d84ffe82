// SPDX-License-Identifier: Apache-2.0
// The store when things go wrong: a crash, a second opener, a newer store, damage, a full disk, a deleted run.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>

#include "storage/keys.h"
#include "storage/rocksdb_status.h"
#include "storage/store.h"
#include "tests/unit/storage/temp_dir.h"

namespace stepscope {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr RunId kRun{7};
const std::string kSession = "0123456789abcdef";

std::unique_ptr<Store> MustOpen(const std::string& path) {
  auto opened = Store::Open({.path = path});
  EXPECT_TRUE(opened.ok()) << opened.status();
  return opened.ok() ? *std::move(opened) : nullptr;
}

std::string Noise(std::mt19937_64& random, size_t bytes) {
  std::string noise(bytes, '\0');
  for (char& byte : noise) byte = static_cast<char>(random());
  return noise;
}

/// Seal n: a block, a name, and the position that says so.
Seal NumberedSeal(uint32_t n, size_t block_bytes) {
  Seal seal;
  seal.blocks = {{{kRun, TableId::kSpan, 1, 0, n}, std::string(block_bytes, static_cast<char>('a' + n % 26))}};
  seal.names = {{kRun, {n}, "name"}};
  seal.positions = {{kSession, 0, 0, n, ""}};
  return seal;
}

/// Runs `work(write_fd)` in a forked child and returns the read end of its pipe. Not for work that opens a store: the child has
/// RocksDB's thread pools without their threads.
template <typename Work>
std::pair<pid_t, int> Fork(Work work) {
  int fds[2];
  EXPECT_EQ(pipe(fds), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    close(fds[0]);
    work(fds[1]);
    _exit(0);
  }
  close(fds[1]);
  return {pid, fds[0]};
}

/// Runs DISABLED_StoreChild.<name> in a process of its own on `dir`; see ChildDir() and ChildOut().
std::pair<pid_t, int> Spawn(const std::string& name, const TempDir& dir) {
  return Fork([&](int out) {
    setenv("STEPSCOPE_CHILD_DIR", dir.path().c_str(), 1);
    setenv("STEPSCOPE_CHILD_OUT", std::to_string(out).c_str(), 1);
    const std::string filter = "--gtest_filter=DISABLED_StoreChild." + name;
    execl("/proc/self/exe", "storage_test", "--gtest_also_run_disabled_tests", filter.c_str(), nullptr);
    _exit(127);
  });
}
std::string ChildDir() { return getenv("STEPSCOPE_CHILD_DIR"); }
int ChildOut() { return std::stoi(getenv("STEPSCOPE_CHILD_OUT")); }

TEST(DISABLED_StoreChild, CommitsUntilKilled) {
  const std::string dir = ChildDir();
  const int out = ChildOut();
  auto store = Store::Open({.path = dir});
  if (!store.ok()) _exit(1);
  for (uint32_t n = 1;; ++n) {
    if (!(*store)->Commit(NumberedSeal(n, 20'000)).ok()) _exit(1);
    if (write(out, &n, sizeof n) != sizeof n) _exit(1);
  }
}

TEST(DISABLED_StoreChild, HoldsTheStore) {
  const std::string dir = ChildDir();
  const int out = ChildOut();
  auto store = Store::Open({.path = dir});
  const char ready = store.ok() ? 'y' : 'n';
  if (write(out, &ready, 1) != 1) _exit(1);
  pause();
}

TEST(DISABLED_StoreChild, FillsTheDisk) {
  const std::string dir = ChildDir();
  const int out = ChildOut();
  const auto say = [&](const std::string& text) { _exit(write(out, text.data(), text.size()) < 0); };
  if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      mount("tmpfs", dir.c_str(), "tmpfs", 0, "size=64m") != 0) {
    say("no mount");
  }
  const std::string ballast = dir + "/ballast";
  auto store = Store::Open({.path = dir + "/store"});
  if (!store.ok()) say(store.status().ToString());
  std::ofstream(ballast) << std::string(48 << 20, 'x');
  absl::Status full;
  uint32_t n = 0;
  while (full.ok() && ++n < 1000) full = (*store)->Commit(NumberedSeal(n, 100'000));
  std::filesystem::remove(ballast);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  absl::Status again = absl::UnknownError("");
  while (!again.ok() && std::chrono::steady_clock::now() < deadline) again = (*store)->Commit(NumberedSeal(n, 100'000));
  store->reset();
  store = Store::Open({.path = dir + "/store"});
  const auto positions = store.ok() ? (*store)->Positions(kSession) : store.status();
  const bool kept = positions.ok() && positions->size() == 1 && positions->at(0).position == n;
  say(full.ToString() + " / again: " + again.ToString() + (kept ? " / kept" : " / lost " + positions.status().ToString()));
}

TEST(StoreCrashTest, WhatWasCommittedBeforeASigkillIsThereWholeAndOnce) {
  const TempDir dir;
  auto [pid, pipe_fd] = Spawn("CommitsUntilKilled", dir);
  uint32_t acknowledged = 0;
  while (acknowledged < 300) ASSERT_EQ(read(pipe_fd, &acknowledged, sizeof acknowledged), ssize_t{sizeof acknowledged});
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  ASSERT_EQ(waitpid(pid, nullptr, 0), pid);
  while (read(pipe_fd, &acknowledged, sizeof acknowledged) == ssize_t{sizeof acknowledged}) {
  }
  close(pipe_fd);

  const auto store = MustOpen(dir.path());
  ASSERT_NE(store, nullptr);
  const auto positions = *store->Positions(kSession);
  ASSERT_EQ(positions.size(), 1u);
  const uint64_t position = positions[0].position;
  EXPECT_GE(position, acknowledged);
  EXPECT_LE(position, acknowledged + 1);  // the seal whose acknowledgement the kill cut off
  uint64_t blocks = 0, names = 0;
  ASSERT_TRUE(store
                  ->ForEachBlock(kRun, TableId::kSpan, {0}, {2 * kNsPerSecond},
                                 [&](const BlockKey& key, auto bytes) {
                                   EXPECT_EQ(key.seq, ++blocks);
                                   return bytes.size() == 20'000u;
                                 })
                  .ok());
  ASSERT_TRUE(store->ForEachName(kRun, [&](auto, auto) { return ++names > 0; }).ok());
  EXPECT_EQ(blocks, position);
  EXPECT_EQ(names, position);
  EXPECT_EQ(*store->NextSeq(kRun, 0), position + 1);
}

TEST(StoreLockTest, ASecondOpenerIsToldWhoHoldsTheStore) {
  const TempDir dir;
  auto [pid, pipe_fd] = Spawn("HoldsTheStore", dir);
  char ready = 0;
  ASSERT_EQ(read(pipe_fd, &ready, 1), 1);
  ASSERT_EQ(ready, 'y');
  const auto second = Store::Open({.path = dir.path()});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()),
              AllOf(HasSubstr(dir.path()), HasSubstr("in use by another stepscoped (pid " + std::to_string(pid) + ")"),
                    HasSubstr("stop it or give another --data-dir")));
  EXPECT_TRUE(Store::Open({.path = dir.path(), .read_only = true}).ok()) << "reading beside a live daemon";
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  close(pipe_fd);
  EXPECT_TRUE(Store::Open({.path = dir.path()}).ok());
}

TEST(StoreLockTest, ASecondOpenInOneProcessLeavesTheLockAlone) {
  const TempDir dir;
  const auto store = MustOpen(dir.path());
  EXPECT_THAT(std::string(Store::Open({.path = dir.path()}).status().message()), HasSubstr("already open in this process"));
  auto [pid, pipe_fd] = Fork([&](int out) {
    // A forked child has no POSIX locks of its parent, but it has a copy of RocksDB's list of them: look at the kernel's.
    const bool locked =
        LockConflict(rocksdb::Status::IOError("x"), dir.path()).message().find("(pid ") != absl::string_view::npos;
    const char answer = locked ? 'y' : 'n';
    if (write(out, &answer, 1) != 1) _exit(1);
  });
  char answer = 0;
  ASSERT_EQ(read(pipe_fd, &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  waitpid(pid, nullptr, 0);
  close(pipe_fd);
}

TEST(StoreVersionTest, ANewerStoreIsRefusedAndLeftAsItIs) {
  const TempDir dir;
  Seal seal;
  seal.meta = {{"setting", "store_format", "2"}};
  ASSERT_TRUE(MustOpen(dir.path())->Commit(seal).ok());
  for (bool read_only : {false, true}) {
    const auto refused = Store::Open({.path = dir.path(), .read_only = read_only});
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(refused.status().message()),
                AllOf(HasSubstr(dir.path()), HasSubstr("has format 2, written by a newer stepscope"),
                      HasSubstr("use the newer release")));
  }
}

TEST(StoreReadOnlyTest, ReadsWithoutTheLockAndWritesNothing) {
  const TempDir dir;
  ASSERT_TRUE(MustOpen(dir.path())->Commit(NumberedSeal(1, 9000)).ok());
  const auto files = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(dir.path())) names.push_back(entry.path().filename());
    std::sort(names.begin(), names.end());
    return names;
  };
  const auto before = files();
  const auto store = Store::Open({.path = dir.path(), .read_only = true});
  ASSERT_TRUE(store.ok()) << store.status();
  int blocks = 0;
  ASSERT_TRUE((*store)->ForEachBlock(kRun, TableId::kSpan, {0}, {9}, [&](auto&, auto) { return ++blocks > 0; }).ok());
  EXPECT_EQ(blocks, 1);
  EXPECT_THAT((*store)->Commit(NumberedSeal(2, 9)).ToString(), HasSubstr("read-only"));
  EXPECT_FALSE((*store)->Sync().ok());
  EXPECT_EQ(files(), before);
  const auto none = Store::Open({.path = dir.path() + "/none", .read_only = true});
  EXPECT_EQ(none.status().code(), absl::StatusCode::kNotFound);
}

TEST(StoreOpenTest, APlaceThatCannotHoldAStoreIsNamed) {
  const TempDir dir;
  std::ofstream(dir.path() + "/file") << "x";
  const auto under_file = Store::Open({.path = dir.path() + "/file/store"});
  EXPECT_THAT(under_file.status().ToString(), AllOf(HasSubstr("create store directory"), HasSubstr("give another --data-dir")));
}

TEST(StoreOpenTest, ADamagedStoreIsCalledDamaged) {
  const TempDir dir;
  ASSERT_TRUE(MustOpen(dir.path())->Commit(NumberedSeal(1, 9000)).ok());
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    if (entry.path().filename().string().starts_with("MANIFEST")) std::ofstream(entry.path()) << "this is no manifest";
  }
  const auto damaged = Store::Open({.path = dir.path()});
  EXPECT_EQ(damaged.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(damaged.status().ToString(), HasSubstr("the store is damaged: move the directory away"));
}

TEST(StoreDiskTest, AFullDiskIsNamedAndWritingGoesOnOnceThereIsRoom) {
  const TempDir dir;
  auto [pid, pipe_fd] = Spawn("FillsTheDisk", dir);
  std::string said(8192, '\0');
  const ssize_t size = read(pipe_fd, said.data(), said.size());
  ASSERT_GT(size, 0);
  said.resize(static_cast<size_t>(size));
  waitpid(pid, nullptr, 0);
  close(pipe_fd);
  if (said == "no mount") GTEST_SKIP() << "needs the right to mount";
  EXPECT_THAT(said,
              AllOf(HasSubstr("RESOURCE_EXHAUSTED"), HasSubstr("free disk space"), HasSubstr("again: OK"), HasSubstr("/ kept")));
}

TEST(StoreDiskTest, DeletingARunGivesItsDiskBackWithinTenSeconds) {
  const TempDir dir;
  const auto store = MustOpen(dir.path());
  std::mt19937_64 random(11);
  Seal seal;
  seal.blocks.resize(1);
  for (uint32_t n = 0; n < 120; ++n) {  // 60 MB, every sixth block of another run: blob files are shared
    seal.blocks[0] = {{{n % 6 == 0 ? 8u : 7u}, TableId::kSpan, n, 0, n}, Noise(random, 500'000)};
    ASSERT_TRUE(store->Commit(seal).ok());
  }
  const uint64_t before = *store->DiskBytes();
  ASSERT_GT(before, 58'000'000u);
  const auto begin = std::chrono::steady_clock::now();
  ASSERT_TRUE(store->DeleteRun(kRun).ok());
  const uint64_t after = *store->DiskBytes();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
  EXPECT_LT(after, 15'000'000u) << "10 MB belong to the other run; before there were " << before;
  size_t kept = 0;
  ASSERT_TRUE(store
                  ->ForEachBlock({8}, TableId::kSpan, {0}, {200 * kNsPerSecond},
                                 [&](auto&, auto bytes) {
                                   kept += bytes.size();
                                   return true;
                                 })
                  .ok());
  EXPECT_EQ(kept, 20u * 500'000);
}

TEST(StoreStatusTest, CausesKeepTheirCodes) {
  const auto code = [](const rocksdb::Status& status) { return RocksDbStatus(status, "/x", "write").code(); };
  EXPECT_EQ(code(rocksdb::Status::NoSpace()), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(code(rocksdb::Status::IOError("While appending", "Read-only file system")), absl::StatusCode::kPermissionDenied);
  EXPECT_EQ(code(rocksdb::Status::Corruption("bad block")), absl::StatusCode::kDataLoss);
  EXPECT_EQ(code(rocksdb::Status::IOError("While fsync", "Input/output error")), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(RocksDbStatus(rocksdb::Status::OK(), "/x", "write").ok());
}

}  // namespace
}  // namespace stepscope
