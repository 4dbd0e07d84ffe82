// SPDX-License-Identifier: Apache-2.0
// A query's time under a wall clock that steps. The step is made in this process alone: it has a clock_gettime of its own.
#include "daemon/rpc/query_budget.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace {
std::atomic<time_t> g_step_s{0};
}  // namespace

extern "C" int clock_gettime(clockid_t id, timespec* now) noexcept {
  const long result = syscall(SYS_clock_gettime, id, now);
  if (id == CLOCK_REALTIME) now->tv_sec += g_step_s;
  return static_cast<int>(result);
}

namespace stepscope {
namespace {

using std::chrono::system_clock;

class QueryBudgetTest : public testing::Test {
 protected:
  ~QueryBudgetTest() override { g_step_s = 0; }
};

TEST_F(QueryBudgetTest, AStepOfTheWallClockNeitherEndsAQueryNorStretchesIt) {
  const auto before = system_clock::now();
  QueryBudget budget(before + std::chrono::hours(1), [] { return false; });
  g_step_s = 3600;
  ASSERT_GE(system_clock::now() - before, std::chrono::minutes(59)) << "the wall clock of this process does not step";
  EXPECT_TRUE(budget.Spend(1));
  g_step_s = 0;

  QueryBudget brief(system_clock::now() + std::chrono::milliseconds(50), [] { return false; });
  g_step_s = -3600;
  const auto begin = std::chrono::steady_clock::now();
  while (brief.Spend(1) && std::chrono::steady_clock::now() - begin < std::chrono::seconds(10)) usleep(1000);
  EXPECT_TRUE(brief.exhausted());
}

TEST_F(QueryBudgetTest, EndsAtTheClientsDeadlineAtTheRowsAndWhenItIsCancelled) {
  EXPECT_FALSE(QueryBudget(system_clock::now() - std::chrono::hours(1), [] { return false; }).Spend(0));
  EXPECT_FALSE(QueryBudget(system_clock::time_point::min(), [] { return false; }).Spend(0));
  EXPECT_FALSE(QueryBudget(system_clock::time_point::max(), [] { return true; }).Spend(0));
  QueryBudget budget(system_clock::time_point::max(), [] { return false; });
  EXPECT_TRUE(budget.Spend(kMaxRowsRead));
  EXPECT_FALSE(budget.Spend(1));
}

}  // namespace
}  // namespace stepscope
