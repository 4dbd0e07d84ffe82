// SPDX-License-Identifier: Apache-2.0
#include "analysis/steps.h"

#include <gtest/gtest.h>

namespace stepscope {
namespace {

class SpanBuilder {
 public:
  SpanBuilder& Add(uint32_t lane, SpanDomain domain, int64_t start, int64_t dur, int64_t number = -1, int64_t name = 1,
                   int64_t flags = 0) {
    batch_.Append(lane,
                  {start, dur, name, static_cast<int64_t>(domain), number < 0 ? 0 : number, number < 0 ? 0 : 1, 0, 0, flags});
    return *this;
  }
  std::vector<StepRow> Steps() const {
    StepFinder finder;
    finder.Add(batch_);
    return finder.Steps([](uint32_t lane) { return lane / 10; });
  }

 private:
  Batch batch_ = Batch::For(TableId::kSpan, RunId{1});
};

TEST(Steps, UserStepsKeepTheirNumbersAndComeInOrder) {
  const auto steps = SpanBuilder().Add(10, SpanDomain::kStep, 200, 50, 8).Add(10, SpanDomain::kStep, 100, 60, 7).Steps();
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].number, 7);
  EXPECT_EQ(steps[0].dur_ns, 60);
  EXPECT_EQ(steps[1].number, 8);
  EXPECT_EQ(steps[1].source, StepSource::kUser);
}

TEST(Steps, OptimizerStepsLieBetweenTheEndsOfTwoCalls) {
  const auto steps = SpanBuilder()
                         .Add(10, SpanDomain::kOptimizer, 90, 10)
                         .Add(10, SpanDomain::kOptimizer, 190, 20)
                         .Add(10, SpanDomain::kOptimizer, 300, 5)
                         .Steps();
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].start.ns, 100);
  EXPECT_EQ(steps[0].dur_ns, 110);
  EXPECT_EQ(steps[1].start.ns, 210);
  EXPECT_EQ(steps[1].dur_ns, 95);
  EXPECT_EQ(steps[1].source, StepSource::kOptimizer);
}

TEST(Steps, AnnotatedStepsSilenceOptimizerStepsOfTheSameRankOnly) {
  const auto steps = SpanBuilder()
                         .Add(10, SpanDomain::kStep, 0, 50, 0)
                         .Add(11, SpanDomain::kOptimizer, 10, 5)
                         .Add(11, SpanDomain::kOptimizer, 60, 5)
                         .Add(20, SpanDomain::kOptimizer, 10, 5)
                         .Add(20, SpanDomain::kOptimizer, 60, 5)
                         .Steps();
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].lane, 10u);
  EXPECT_EQ(steps[1].lane, 20u);
}

TEST(Steps, OfSeveralOptimizersTheMostCalledMeasures) {
  const auto steps = SpanBuilder()
                         .Add(10, SpanDomain::kOptimizer, 10, 1, -1, 5)
                         .Add(10, SpanDomain::kOptimizer, 12, 1, -1, 6)
                         .Add(10, SpanDomain::kOptimizer, 20, 1, -1, 5)
                         .Add(10, SpanDomain::kOptimizer, 30, 1, -1, 5)
                         .Add(10, SpanDomain::kOptimizer, 32, 1, -1, 6)
                         .Steps();
  ASSERT_EQ(steps.size(), 2u);
  EXPECT_EQ(steps[0].dur_ns, 10);
  EXPECT_EQ(steps[1].dur_ns, 10);
}

TEST(Steps, AStepSpanOpenedByATokenWasFoundAtTheOptimizer) {
  const auto steps = SpanBuilder().Add(10, SpanDomain::kStep, 0, 50, 4, 1, kSpanToken).Steps();
  ASSERT_EQ(steps.size(), 1u);
  EXPECT_EQ(steps[0].source, StepSource::kOptimizer);
  EXPECT_TRUE(steps[0].numbered);
}

TEST(Steps, ASpanWithoutAnEndIsNoStep) {
  EXPECT_TRUE(SpanBuilder().Add(10, SpanDomain::kStep, 0, 50, 0, 1, kSpanCut).Steps().empty());
}

TEST(Steps, StatisticsUseTheLowerMedian) {
  const StepStatistics statistics = StatisticsOf({40, 10, 30, 20});
  EXPECT_EQ(statistics.count, 4u);
  EXPECT_EQ(statistics.min_ns, 10);
  EXPECT_EQ(statistics.median_ns, 20);
  EXPECT_EQ(statistics.max_ns, 40);
  EXPECT_EQ(statistics.total_ns, 100);
  EXPECT_EQ(StatisticsOf({}).count, 0u);
}

}  // namespace
}  // namespace stepscope
