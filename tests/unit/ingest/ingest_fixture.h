// SPDX-License-Identifier: Apache-2.0
// A running Ingest on a socket of its own, before a pipeline, a store and a job table that are made up.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "daemon/ingest/ingest.h"
#include "tests/unit/ingest/fake_pipeline.h"

namespace stepscope::testing {

inline uint64_t Now() { return static_cast<uint64_t>(ReadClockNs(CLOCK_MONOTONIC)); }

class IngestFixture : public ::testing::Test {
 protected:
  IngestFixture() {
    std::string folder = ::testing::TempDir() + "ingest_XXXXXX";
    folder_ = mkdtemp(folder.data());
    options_.socket_path = folder_ + "/run/agent.sock";
    options_.poll_ns = 20 * kNsPerMillisecond;
    StartDaemon();
  }
  ~IngestFixture() override {
    pipeline_.Release();
    ingest_.reset();
    std::filesystem::remove_all(folder_);
  }
  void StartDaemon() {
    auto started = Ingest::Start(options_, {&store_, &pipeline_, &clocks_, &jobs_, &tids_});
    ASSERT_TRUE(started.ok()) << started.status();
    ingest_ = *std::move(started);
  }

  std::string folder_;
  Ingest::Options options_;
  FakeStore store_;
  ClockRegistry clocks_;
  FakePipeline pipeline_{&store_, &clocks_};
  FakeJobs jobs_;
  SystemClock clock_;
  InnerTids tids_{&clock_, [] {}};
  std::unique_ptr<Ingest> ingest_;
};

}  // namespace stepscope::testing
