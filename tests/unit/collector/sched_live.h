// SPDX-License-Identifier: Apache-2.0
// Fixture of the live tests: a recorded process, a collector that keeps its rows, and the comparison of both with the kernel's
// own books. Needs CAP_BPF and CAP_PERFMON; tests are skipped with the reason where they are missing.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/collector/sched_collector.h"
#include "kept_rows.h"
#include "recorded_process.h"

namespace stepscope {

inline constexpr RunId kRun{7};

/// script/test --full: what takes longer, or needs a machine of its own.
inline bool IsFull() {
  const char* full = std::getenv("STEPSCOPE_FULL");
  return full != nullptr && std::string_view(full) == "1";
}

class SchedLive : public testing::Test {
 protected:
  /// `scenario` of sched_workload; its default has a bit of everything.
  explicit SchedLive(std::string scenario = "mixed") : scenario_(std::move(scenario)) {}
  void StartWith(SchedOptions options) {
    collector_ = std::make_unique<SchedCollector>(options, &rows_, &tasks_, &clock_);
    absl::Status status = collector_->Start();
    if (!status.ok()) GTEST_SKIP() << "needs CAP_BPF, CAP_PERFMON and kernel BTF: " << std::string(status.message());
  }
  /// Tracks before the exec, as `stepscope run` does.
  void TrackThenExec() {
    ASSERT_TRUE(collector_->Track(Pid{process_.pid()}, kRun).ok());
    ASSERT_EQ(process_.Exec(), "ready");
  }
  static int64_t Sum(const std::vector<KeptRows::Row>& rows, size_t column) {
    return std::accumulate(rows.begin(), rows.end(), int64_t{0}, [&](int64_t sum, const auto& row) { return sum + row[column]; });
  }
  static uint64_t Switches(const std::map<int32_t, KernelBooks>& books) {
    uint64_t sum = 0;
    for (const auto& [tid, book] : books) sum += book.switches;
    return sum;
  }
  /// The kernel's books of the blocked process; RowsSince counts from here.
  std::map<int32_t, KernelBooks> ReadBefore() {
    auto books = RecordedProcess::Books(process_.pid());
    before_ns_ = clock_.Node().ns;
    return books;
  }
  std::vector<KeptRows::Row> RowsSince(int32_t tid) {
    std::vector<KeptRows::Row> rows = rows_.SlicesOf(tid);
    std::erase_if(rows, [&](const auto& row) { return row[slice_column::kOn] + row[slice_column::kDur] < before_ns_; });
    return rows;
  }
  void ExpectExactBooks(const std::map<int32_t, KernelBooks>& before, const std::map<int32_t, KernelBooks>& after) {
    for (const auto& [tid, start] : before) {
      SCOPED_TRACE(testing::Message() << "thread " << tid);
      ASSERT_TRUE(after.contains(tid));
      const KernelBooks& end = after.at(tid);
      std::vector<KeptRows::Row> rows = RowsSince(tid);
      EXPECT_EQ(rows.size(), end.switches - start.switches);
      uint64_t seq = start.switches;
      const auto hole =
          std::ranges::find_if(rows, [&](const auto& row) { return row[slice_column::kSeq] != static_cast<int64_t>(++seq); });
      EXPECT_TRUE(hole == rows.end()) << "hole in seq before " << (*hole)[slice_column::kSeq];
      EXPECT_EQ(Sum(rows, slice_column::kExec), end.exec_ns - start.exec_ns);
      EXPECT_EQ(Sum(rows, slice_column::kRqWait), end.run_delay_ns - start.run_delay_ns);
      EXPECT_EQ(Sum(rows, slice_column::kMinFaults), end.min_faults - start.min_faults);
      EXPECT_EQ(Sum(rows, slice_column::kMajFaults), end.maj_faults - start.maj_faults);
      ExpectSequential(rows);
    }
  }
  static void ExpectSequential(const std::vector<KeptRows::Row>& rows) {
    int64_t off = 0;
    for (const auto& row : rows) {
      ASSERT_GE(row[slice_column::kDur], 0);
      ASSERT_GE(row[slice_column::kWait], 0);
      ASSERT_GE(row[slice_column::kOn] - row[slice_column::kWait], off) << "a wait reaches into the turn before it";
      off = row[slice_column::kOn] + row[slice_column::kDur];
    }
  }
  void RunAndCompare(int rounds) {
    auto before = ReadBefore();
    ASSERT_EQ(before.size(), 6u);
    ASSERT_EQ(process_.Do("run " + std::to_string(rounds)), "done");
    auto after = RecordedProcess::Books(process_.pid());
    ASSERT_TRUE(collector_->Flush().ok());
    ASSERT_GT(Switches(after) - Switches(before), static_cast<uint64_t>(2 * rounds));
    ExpectExactBooks(before, after);
    EXPECT_EQ(rows_.LostSlices(), 0u);
    EXPECT_EQ(collector_->Counters().unplaced, 0u);
  }

  const std::string scenario_;
  SystemClock clock_;
  int64_t before_ns_ = 0;
  KeptRows rows_;
  KeptTasks tasks_;
  RecordedProcess process_{scenario_};
  std::unique_ptr<SchedCollector> collector_;
};

}  // namespace stepscope
