// SPDX-License-Identifier: Apache-2.0
#include "analysis/evidence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace stepscope {
namespace {

StepRow Step(uint32_t lane, int64_t number, int64_t start_ns, int64_t dur_ns) { return {lane, number, {start_ns}, dur_ns}; }

/// Begins and ends, for comparing.
std::vector<std::pair<int64_t, int64_t>> Pairs(const std::vector<TimeRange>& ranges) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (const TimeRange& range : ranges) pairs.emplace_back(range.begin.ns, range.end.ns);
  return pairs;
}

TEST(EvidenceTest, AStepOverOneAndAHalfMediansOfItsThreadIsAnOutlier) {
  std::vector<StepRow> steps;
  for (int64_t i = 0; i < 9; ++i) steps.push_back(Step(1, 1 + i, i * 100, 100));
  steps.push_back(Step(1, 10, 900, 150));
  steps.push_back(Step(1, 11, 1050, 151));
  for (int64_t i = 0; i < 9; ++i) steps.push_back(Step(2, 1 + i, 2000 + i * 1000, 1000));  // slow, but always
  const Evidence evidence = EvidenceOf(steps, {}, {});
  EXPECT_THAT(Pairs(evidence.kept), testing::ElementsAre(testing::Pair(1050, 1201)));
  EXPECT_TRUE(evidence.sampled.empty());
}

TEST(EvidenceTest, EveryHundredthOrdinaryStepIsSampledAndAnOutlierIsNoSample) {
  std::vector<StepRow> steps;
  for (int64_t i = 0; i < 400; ++i) steps.push_back(Step(1, i, i * 10'000, i == 200 ? 9000 : 1000));
  const Evidence evidence = EvidenceOf(steps, {}, {});
  EXPECT_THAT(Pairs(evidence.sampled), testing::ElementsAre(testing::Pair(0, 1000), testing::Pair(1'000'000, 1'001'000),
                                                            testing::Pair(3'000'000, 3'001'000)));
  EXPECT_THAT(Pairs(evidence.kept), testing::ElementsAre(testing::Pair(2'000'000, 2'009'000)));
}

TEST(EvidenceTest, FindingsReachTwoSecondsAroundThemAndMergeWithNeighbours) {
  const std::vector<TimeRange> findings = {{{10 * kNsPerSecond}, {11 * kNsPerSecond}},
                                           {{14 * kNsPerSecond}, {14 * kNsPerSecond}}};
  const Evidence evidence = EvidenceOf({}, findings, {});
  EXPECT_THAT(Pairs(evidence.kept), testing::ElementsAre(testing::Pair(8 * kNsPerSecond, 16 * kNsPerSecond)));
}

/// Whether [first, last] touches any of the unmerged ranges, one by one.
bool TouchesOneByOne(const std::vector<TimeRange>& ranges, int64_t first, int64_t last) {
  return std::any_of(ranges.begin(), ranges.end(), [&](const TimeRange& r) { return r.begin.ns <= last && r.end.ns >= first; });
}

TEST(EvidenceTest, TouchingMergedRangesIsTouchingOneOfThem) {
  std::mt19937_64 random(5);
  const auto below = [&](int64_t limit) { return static_cast<int64_t>(random() % static_cast<uint64_t>(limit)); };
  for (int history = 0; history < 300; ++history) {
    std::vector<TimeRange> findings;
    for (int64_t i = below(8); i > 0; --i) {
      const int64_t begin = below(1000);
      findings.push_back({{begin}, {begin + below(100)}});
    }
    EvidenceRules rules;
    rules.around_finding_ns = 0;
    const Evidence evidence = EvidenceOf({}, findings, rules);
    for (int64_t first = 0; first < 1100; first += 7) {
      const int64_t last = first + below(60);
      ASSERT_EQ(Touches(evidence.kept, {first}, {last}), TouchesOneByOne(findings, first, last)) << first << " " << last;
    }
  }
}

}  // namespace
}  // namespace stepscope
