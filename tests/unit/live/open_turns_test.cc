// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/open_turns.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

constexpr RunId kRun{7};
constexpr NodeTime kNow{1000 * kNsPerSecond};

class OpenTurns : public testing::Test {
 public:
  OpenTurns() {
    sample_.processes[{Pid{100}, 1}] = {0, Pid{1}, {}, {}};
    sample_.processes[{Pid{200}, 1}] = {0, Pid{100}, {}, {}};  // a loader worker of rank 0
    sample_.processes[{Pid{300}, 1}] = {1, Pid{1}, {}, {}};
    row_.set_rank(0);
    row_.set_pid(100);
  }
  OpenTurns& Thread(int32_t pid, int32_t tid, OpenTurn::Doing doing, double for_s, RunId run = kRun) {
    OpenTurn& turn = turns_.emplace_back();
    turn.run = run;
    turn.thread = {EntityKind::kThread, pid, 1, tid, {}};
    turn.doing = doing;
    turn.since = NodeTime{kNow.ns - static_cast<int64_t>(for_s * 1e9)};
    return *this;
  }
  std::vector<int32_t> Shown() {
    FillOpenTurns(turns_, sample_, kRun, kNow, &row_);
    std::vector<int32_t> tids;
    for (const v1::OpenTurn& turn : row_.now()) tids.push_back(turn.tid());
    return tids;
  }

  JobSample sample_;
  std::vector<OpenTurn> turns_;
  v1::RankUtilization row_;
};

TEST_F(OpenTurns, TheMainThreadIsShownWhateverItDoes) {
  Thread(100, 100, OpenTurn::Doing::kOff, 0.001);
  EXPECT_EQ(Shown(), std::vector<int32_t>{100});
}

TEST_F(OpenTurns, SpinningComesBeforeSilence) {
  Thread(100, 103, OpenTurn::Doing::kOff, 20).Thread(100, 102, OpenTurn::Doing::kRunning, 2);
  Thread(100, 100, OpenTurn::Doing::kOff, 3).Thread(200, 201, OpenTurn::Doing::kRunning, 5);
  EXPECT_EQ(Shown(), (std::vector<int32_t>{100, 201, 102, 103}));
}

TEST_F(OpenTurns, PoolThreadsAndShortTurnsAreNoNews) {
  Thread(100, 102, OpenTurn::Doing::kOff, 300)
      .Thread(100, 103, OpenTurn::Doing::kOff, 0.5)
      .Thread(100, 104, OpenTurn::Doing::kRunning, 0.5);
  EXPECT_TRUE(Shown().empty());
}

TEST_F(OpenTurns, OtherRanksAndOtherRunsAreLeftOut) {
  Thread(300, 300, OpenTurn::Doing::kRunning, 5).Thread(100, 100, OpenTurn::Doing::kRunning, 5, RunId{8});
  EXPECT_TRUE(Shown().empty());
}

TEST_F(OpenTurns, TheListIsShort) {
  for (int32_t tid = 101; tid < 140; ++tid) Thread(100, tid, OpenTurn::Doing::kRunning, tid - 100 + 1);
  EXPECT_EQ(Shown().size(), 8u);
  EXPECT_EQ(row_.now(0).tid(), 139);
}

}  // namespace
}  // namespace stepscope
