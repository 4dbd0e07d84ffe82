// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "daemon/pipeline/clock_registry.h"
#include "daemon/pipeline/place.h"

namespace stepscope {
namespace {

constexpr ClockId kClock{7};
constexpr double kGhz = 2.9;

/// A counter at 2.9 GHz whose speed against node time wanders by up to 2 ppm.
class WanderingClock {
 public:
  explicit WanderingClock(uint64_t seed) : random_(seed) {}
  /// Lets `ns` of node time pass at a speed drawn anew.
  void Pass(int64_t ns) {
    std::uniform_real_distribution<double> ppm(-2, 2);
    node_ += ns;
    ticks_ += static_cast<double>(ns) * kGhz * (1 + ppm(random_) * 1e-6);
  }
  ClockAnchor Read(uint64_t width) {
    std::uniform_real_distribution<double> inside(-0.5, 0.5);
    return {{static_cast<uint64_t>(ticks_ + inside(random_) * static_cast<double>(width))}, width, {node_}};
  }
  SourceTicks ticks() const { return {static_cast<uint64_t>(ticks_)}; }
  NodeTime node() const { return {node_}; }
  int64_t Draw(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(random_); }

 private:
  std::mt19937_64 random_;
  int64_t node_ = 5 * kNsPerSecond;
  double ticks_ = 1e15;
};

TEST(ClockMapTest, UnknownClockAndMissingAnchorAreNamedErrors) {
  ClockRegistry clocks;
  EXPECT_EQ(clocks.Place(kClock, {1}).status().code(), absl::StatusCode::kNotFound);
  clocks.Register(kClock, 0);
  EXPECT_EQ(clocks.Place(kClock, {1}).status().code(), absl::StatusCode::kFailedPrecondition);
  clocks.Forget(kClock);
  EXPECT_EQ(clocks.Place(kClock, {1}).status().code(), absl::StatusCode::kNotFound);
}

TEST(ClockMapTest, MonotonicClockIsTheIdentityPlusItsOffset) {
  ClockRegistry clocks;
  clocks.Register(kClock, 1000, {1.0, 0.0});
  clocks.AddAnchor(kClock, {{500}, 40, {470}});
  EXPECT_EQ(clocks.Place(kClock, {12345})->time.ns, 13345);
  EXPECT_EQ(clocks.Place(kClock, {12345})->error_ns, 0);
}

TEST(ClockMapTest, OffsetMovesAnchors) {
  ClockRegistry clocks;
  clocks.Register(kClock, -5000, {1.0, 1e-6});
  clocks.AddAnchor(kClock, {{100'000}, 2, {900'000}});
  EXPECT_EQ(clocks.Place(kClock, {100'000})->time.ns, 895'000);
}

TEST(ClockMapTest, EveryReadingLiesWithinItsErrorBoundLiveAndLater) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    WanderingClock source(seed);
    ClockRegistry clocks;
    clocks.Register(kClock, 0, {1 / kGhz, 5e-5});
    std::vector<std::pair<SourceTicks, NodeTime>> truth;
    for (int second = 0; second < 200; ++second) {
      clocks.AddAnchor(kClock, source.Read(static_cast<uint64_t>(source.Draw(20, 2000))));
      for (int i = 0; i < 5; ++i) {
        source.Pass(source.Draw(kNsPerSecond / 10, kNsPerSecond / 4));
        truth.emplace_back(source.ticks(), source.node());
        const auto live = clocks.Place(kClock, source.ticks());
        ASSERT_TRUE(live.ok());
        ASSERT_LE(std::abs(live->time - source.node()), live->error_ns) << "seed " << seed << " second " << second;
        ASSERT_LT(live->error_ns, second > 10 ? 50'000 : 1'000'000);
      }
    }
    for (const auto& [ticks, node] : truth) {
      const auto placed = clocks.Place(kClock, ticks);
      ASSERT_TRUE(placed.ok());
      ASSERT_LE(std::abs(placed->time - node), placed->error_ns) << "seed " << seed << " at " << node.ns;
    }
  }
}

TEST(ClockMapTest, PlacedTimesNeverRunBackwards) {
  WanderingClock source(3);
  ClockRegistry clocks;
  clocks.Register(kClock, 0, {1 / kGhz, 1e-5});
  const uint64_t first = source.ticks().ticks;
  for (int second = 0; second < 20; ++second) {
    clocks.AddAnchor(kClock, source.Read(100));
    source.Pass(kNsPerSecond);
  }
  NodeTime last;
  for (uint64_t ticks = first - 1'000'000'000; ticks < source.ticks().ticks + 2'000'000'000; ticks += 7'654'321) {
    const NodeTime now = clocks.Place(kClock, {ticks})->time;
    ASSERT_GE(now, last);
    last = now;
  }
}

TEST(ClockMapTest, ErrorGrowsBehindTheLastAnchorAndEndsAfterAnHour) {
  ClockRegistry clocks;
  clocks.Register(kClock, 0, {1.0, 1e-6});
  for (int64_t s = 1; s <= 5; ++s) clocks.AddAnchor(kClock, {{static_cast<uint64_t>(s * kNsPerSecond)}, 10, {s * kNsPerSecond}});
  const auto at = [&](int64_t s) { return clocks.Place(kClock, {static_cast<uint64_t>(s * kNsPerSecond)}); };
  EXPECT_LT(at(6)->error_ns, at(60)->error_ns);
  EXPECT_LT(at(60)->error_ns, at(600)->error_ns);
  EXPECT_TRUE(at(3600).ok());
  EXPECT_EQ(at(3610).status().code(), absl::StatusCode::kOutOfRange);
}

TEST(ClockMapTest, AStepStartsANewSegmentAndIsNotSmearedOver) {
  ClockRegistry clocks;
  clocks.Register(kClock, 0, {1.0, 1e-6});
  const auto second = [](int64_t s) { return static_cast<uint64_t>(s * kNsPerSecond); };
  for (int64_t s = 1; s <= 10; ++s) clocks.AddAnchor(kClock, {{second(s)}, 10, {s * kNsPerSecond}});
  constexpr int64_t kAsleep = 100 * kNsPerSecond;  // node time stood still while the counter went on
  for (int64_t s = 111; s <= 120; ++s) clocks.AddAnchor(kClock, {{second(s)}, 10, {s * kNsPerSecond - kAsleep}});
  EXPECT_NEAR(static_cast<double>(clocks.Place(kClock, {second(5)})->time.ns), 5e9, 100);
  EXPECT_NEAR(static_cast<double>(clocks.Place(kClock, {second(115)})->time.ns), 15e9, 100);
  const auto inside = clocks.Place(kClock, {second(60)});
  ASSERT_TRUE(inside.ok());
  EXPECT_LE(inside->time.ns, 11 * kNsPerSecond);
  EXPECT_GE(inside->error_ns, kAsleep / 2);
}

TEST(ClockMapTest, LateAnchorsAreSortedIn) {
  ClockRegistry ordered, shuffled;
  for (ClockRegistry* clocks : {&ordered, &shuffled}) clocks->Register(kClock, 0, {1.0, 1e-4});
  const auto anchor = [](int64_t s) { return ClockAnchor{{static_cast<uint64_t>(s * kNsPerSecond)}, 10, {s * 1'000'010'000}}; };
  for (int64_t s : {1, 2, 3, 4, 5, 6}) ordered.AddAnchor(kClock, anchor(s));
  for (int64_t s : {6, 1, 3, 2, 5, 4, 4}) shuffled.AddAnchor(kClock, anchor(s));
  for (uint64_t ticks = 500'000'000; ticks < 8'000'000'000; ticks += 99'999'999) {
    EXPECT_NEAR(static_cast<double>(ordered.Place(kClock, {ticks})->time.ns),
                static_cast<double>(shuffled.Place(kClock, {ticks})->time.ns), 50);
  }
}

TEST(ClockMapTest, DaysOfAnchorsStayBounded) {
  ClockRegistry clocks;
  clocks.Register(kClock, 0, {1.0, 1e-6});
  for (int64_t s = 1; s < 100'000; ++s)
    clocks.AddAnchor(kClock, {{static_cast<uint64_t>(s * kNsPerSecond)}, 10, {s * kNsPerSecond}});
  EXPECT_NEAR(static_cast<double>(clocks.Place(kClock, {99'998'500'000'000})->time.ns), 99'998.5e9, 100);
}

class PlaceTest : public testing::Test {
 protected:
  PlaceTest() { clocks_.Register(kClock, 100, {1.0, 0.0}); }
  Batch Spans(std::initializer_list<std::pair<int64_t, int64_t>> ticks) {
    Batch batch = Batch::For(TableId::kSpan, {1});
    batch.clock = kClock;
    batch.entities.push_back({});
    for (const auto& [begin, end] : ticks) batch.Append(0, {begin, end, 0, 0, begin, 1, 0, 0, 0});
    return batch;
  }
  ClockRegistry clocks_;
};

TEST_F(PlaceTest, EndReadingsOfSpansBecomeLengths) {
  Batch batch = Spans({{1000, 1500}, {2000, 2000}});
  EXPECT_EQ(PlaceBatch(batch, clocks_), 0u);
  EXPECT_EQ(batch.clock, ClockId{});
  EXPECT_EQ(batch.columns[span_column::kStart], (std::vector<int64_t>{1100, 2100}));
  EXPECT_EQ(batch.columns[span_column::kDur], (std::vector<int64_t>{500, 0}));
}

TEST_F(PlaceTest, RowsWithoutAPlaceAreRemovedAndCounted) {
  Batch batch = Spans({{1000, 1500}, {3000, 2000}, {-5000, 10}, {4000, 4001}});
  EXPECT_EQ(PlaceBatch(batch, clocks_), 2u);
  ASSERT_EQ(batch.rows(), 2u);
  EXPECT_EQ(batch.columns[span_column::kNumber], (std::vector<int64_t>{1000, 4000}));
  Batch foreign = Spans({{1, 2}});
  foreign.clock = ClockId{99};
  EXPECT_EQ(PlaceBatch(foreign, clocks_), 1u);
}

TEST_F(PlaceTest, NodeTimeBatchesStayAsTheyAre) {
  Batch batch = Spans({{1000, 500}});
  batch.clock = {};
  EXPECT_EQ(PlaceBatch(batch, clocks_), 0u);
  EXPECT_EQ(batch.columns[span_column::kDur][0], 500);
}

TEST_F(PlaceTest, CountersHaveOneTimeAndNoEnd) {
  Batch batch = Batch::For(TableId::kCounter, {1});
  batch.clock = kClock;
  batch.entities.push_back({});
  batch.Append(0, {1000, 0, 77, 0});
  EXPECT_EQ(PlaceBatch(batch, clocks_), 0u);
  EXPECT_EQ(batch.columns[counter_column::kTime][0], 1100);
  EXPECT_EQ(batch.columns[counter_column::kValue][0], 77);
}

}  // namespace
}  // namespace stepscope
