// SPDX-License-Identifier: Apache-2.0
// A real RocksDB store in a fresh directory, and a clock a test can move.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <memory>
#include <string>

#include "base/time.h"
#include "storage/store.h"

namespace stepscope {

class TempStore {
 public:
  TempStore() {
    std::string pattern = ::testing::TempDir() + "stepscope-XXXXXX";
    path_ = mkdtemp(pattern.data());
    Reopen();
  }
  ~TempStore() {
    store_.reset();
    std::filesystem::remove_all(path_);
  }
  void Reopen() {
    store_.reset();
    auto opened = Store::Open({.path = path_ + "/store"});
    EXPECT_TRUE(opened.ok()) << opened.status();
    store_ = *std::move(opened);
  }
  Store* get() { return store_.get(); }
  Store* operator->() { return store_.get(); }

 private:
  std::string path_;
  std::unique_ptr<Store> store_;
};

class FakeClock final : public Clock {
 public:
  NodeTime Node() const override { return node; }
  WallTime Wall() const override { return wall; }
  NodeTime node{100 * kNsPerSecond};
  WallTime wall{1'700'000'000 * kNsPerSecond};
};

}  // namespace stepscope
