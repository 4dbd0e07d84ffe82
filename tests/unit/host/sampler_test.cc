// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>

#include "tests/unit/host/kept_counters.h"

namespace stepscope {
namespace {

using std::chrono::milliseconds;
using testing::IsEmpty;
using testing::SizeIs;

constexpr RunId kFirst{1}, kSecond{2};
constexpr ProcessKey kOfFirst{{100}, 7}, kOfSecond{{200}, 8}, kOfBoth{{300}, 9};
constexpr milliseconds kNever = std::chrono::hours(24 * 365);

/// Stands still until the test, or a source, moves it.
class StepClock final : public Clock {
 public:
  NodeTime Node() const override { return {ns_.load()}; }
  WallTime Wall() const override { return {ns_.load()}; }
  void Advance(int64_t ns) { ns_ += ns; }

 private:
  std::atomic<int64_t> ns_{kNsPerSecond};
};

struct SourceLog {
  std::atomic<int> starts{0}, stops{0}, samples{0};
};

class FakeSource final : public MetricSource {
 public:
  using Say = std::function<void(MetricSink*)>;
  FakeSource(std::string name, milliseconds period, SourceLog* log, Say say)
      : name_(std::move(name)), period_(period), log_(log), say_(std::move(say)) {}

  CollectorState State() const override { return {name_, "full", log_->starts > log_->stops ? "on" : "idle", "", "", {}}; }
  milliseconds period() const override { return period_; }
  void Start() override { ++log_->starts; }
  void Sample(std::span<const ProcessKey>, MetricSink* sink) override {
    ++log_->samples;
    say_(sink);
  }
  void Stop() override { ++log_->stops; }

 private:
  const std::string name_;
  const milliseconds period_;
  SourceLog* const log_;
  const Say say_;
};

class SamplerTest : public testing::Test {
 protected:
  Sampler& With(milliseconds period, FakeSource::Say say) {
    std::vector<std::unique_ptr<MetricSource>> sources;
    sources.push_back(std::make_unique<FakeSource>("fake", period, &log_, std::move(say)));
    const auto processes_of = [](RunId run) {
      return run == kFirst ? std::vector{kOfFirst, kOfBoth} : std::vector{kOfSecond, kOfBoth};
    };
    return sampler_.emplace(std::move(sources), &rows_, &clock_, processes_of, [this] { return is_watched_.load(); });
  }

  StepClock clock_;
  KeptCounters rows_;
  SourceLog log_;
  std::atomic<bool> is_slow_{false};
  std::atomic<bool> is_watched_{true};
  std::optional<Sampler> sampler_;
};

void SayOne(MetricSink* sink) { sink->Add({.name = "fake.things_total", .value = 5}); }

TEST_F(SamplerTest, ARunShorterThanThePeriodHasItsFirstAndLastValues) {
  Sampler& sampler =
      With(kNever, [n = 0](MetricSink* sink) mutable { sink->Add({.name = "fake.things_total", .value = 1.0 * ++n}); });
  sampler.Track(kFirst);
  ASSERT_TRUE(rows_.Await(1));
  sampler.Untrack(kFirst);
  const auto rows = rows_.RowsOf(kFirst, "fake.things_total");
  ASSERT_THAT(rows, SizeIs(2)) << "Untrack returns when the last values are delivered";
  EXPECT_EQ(rows[0].value, 1);
  EXPECT_EQ(rows[1].value, 2);
}

TEST_F(SamplerTest, WhileNobodyWatchesTheTicksOfAFifthOfASecondAreDeliveredTogether) {
  is_watched_ = false;
  Sampler& sampler = With(milliseconds(50), [](MetricSink* sink) {
    sink->Add({.name = "fake.things_total", .value = 5});
    sink->Add({.name = "fake.of_one", .process = kOfFirst, .value = 6});
  });
  sampler.Track(kFirst);
  ASSERT_TRUE(rows_.Await(2));
  const auto tick = [this] {
    const int before = log_.samples;
    clock_.Advance(50 * kNsPerMillisecond);
    while (log_.samples == before) std::this_thread::yield();
  };
  for (int i = 0; i < 4; ++i) tick();
  EXPECT_THAT(rows_.Rows(), SizeIs(2)) << "those of the first look";
  tick();
  ASSERT_TRUE(rows_.Await(12));
  const auto rows = rows_.RowsOf(kFirst, "fake.of_one");
  ASSERT_THAT(rows, SizeIs(6));
  for (size_t i = 1; i < rows.size(); ++i) EXPECT_EQ(rows[i].time_ns - rows[i - 1].time_ns, 50 * kNsPerMillisecond);
  tick();
  sampler.Track(kSecond);
  ASSERT_TRUE(rows_.Await(15)) << "what waits is delivered before other runs are opened";
  EXPECT_THAT(rows_.RowsOf(kFirst, "fake.of_one"), SizeIs(7));
}

TEST_F(SamplerTest, SourcesRunFromTheFirstTrackToTheLastUntrack) {
  Sampler& sampler = With(kNever, SayOne);
  EXPECT_EQ(sampler.States()[0].state, "idle");
  sampler.Track(kFirst);
  ASSERT_TRUE(rows_.Await(1));
  sampler.Track(kSecond);
  ASSERT_TRUE(rows_.Await(2));
  sampler.Untrack(kFirst);
  EXPECT_EQ(sampler.States()[0].state, "on");
  sampler.Untrack(kSecond);
  EXPECT_EQ(log_.starts, 1);
  EXPECT_EQ(log_.stops, 1);
  sampler.Track(kFirst);
  ASSERT_TRUE(rows_.Await(5));
  EXPECT_EQ(log_.starts, 2);
}

TEST_F(SamplerTest, OfTwoRunsEachGetsTheNodesValuesAndThoseOfItsOwnProcesses) {
  const std::vector<ProcessKey> in_group{kOfFirst, kOfBoth};
  const std::vector<ProcessKey> in_first{kOfFirst};
  Sampler& sampler = With(milliseconds(1), [in_group, in_first](MetricSink* sink) {
    sink->Add({.name = "fake.node"});
    sink->Add({.name = "fake.part", .instance = "cpu3", .scaled = true});
    sink->Add({.name = "fake.first", .process = kOfFirst});
    sink->Add({.name = "fake.second", .process = kOfSecond});
    sink->Add({.name = "fake.nobody", .process = {{999}, 1}});
    sink->Add({.name = "fake.shared_group", .members = in_group});
    sink->Add({.name = "fake.group_of_first", .instance = "/pod1", .members = in_first});
  });
  sampler.Track(kFirst);
  ASSERT_TRUE(rows_.Await(5));
  sampler.Track(kSecond);
  ASSERT_TRUE(rows_.Await(9));
  clock_.Advance(kNsPerMillisecond);
  ASSERT_TRUE(rows_.Await(18)) << "one tick of both";
  sampler.Untrack(kFirst);
  EXPECT_THAT(rows_.RowsOf(kFirst, "fake.node"), SizeIs(3));
  EXPECT_THAT(rows_.RowsOf(kSecond, "fake.node"), SizeIs(2));
  EXPECT_THAT(rows_.RowsOf(kFirst, "fake.first"), SizeIs(3));
  EXPECT_THAT(rows_.RowsOf(kSecond, "fake.first"), IsEmpty());
  EXPECT_THAT(rows_.RowsOf(kFirst, "fake.second"), IsEmpty());
  EXPECT_THAT(rows_.RowsOf(kSecond, "fake.second"), SizeIs(2));
  EXPECT_THAT(rows_.RowsOf(kFirst, "fake.nobody"), IsEmpty());
  EXPECT_THAT(rows_.RowsOf(kFirst, "fake.shared_group"), SizeIs(3)) << "once, though two of its processes are members";
  EXPECT_THAT(rows_.RowsOf(kSecond, "fake.shared_group"), SizeIs(2));
  EXPECT_THAT(rows_.RowsOf(kSecond, "fake.group_of_first@/pod1"), IsEmpty());
}

TEST_F(SamplerTest, ALaneIsTheMetricWithItsInstanceAndItsProcess) {
  Sampler& sampler = With(kNever, [](MetricSink* sink) {
    sink->Add({.name = "fake.part_ns_total", .instance = "cpu3", .value = 0.25, .scaled = true});
    sink->Add({.name = "fake.io_bytes_total", .process = kOfFirst, .value = 1e15});
  });
  sampler.Track(kFirst);
  ASSERT_TRUE(rows_.Await(2));
  const auto rows = rows_.Rows();
  EXPECT_EQ(rows[0].lane, (EntityKey{EntityKind::kMetric, 0, 0, 0, "fake.part_ns_total@cpu3"}));
  EXPECT_EQ(rows[0].name, "fake.part_ns_total");
  EXPECT_EQ(rows[0].value, 0.25);
  EXPECT_TRUE(rows[0].scaled);
  EXPECT_EQ(rows[0].time_ns, clock_.Node().ns);
  EXPECT_EQ(rows[1].lane, (EntityKey{EntityKind::kMetric, 100, 7, 0, "fake.io_bytes_total"}));
  EXPECT_FALSE(rows[1].scaled);
}

TEST_F(SamplerTest, WhatASourceSaysMayChangeFromTickToTick) {
  Sampler& sampler = With(milliseconds(1), [tick = 0](MetricSink* sink) mutable {
    const int now = tick++;
    if (now != 1) sink->Add({.name = "fake.a", .value = 10.0 + now});
    sink->Add({.name = "fake.b", .value = 20.0 + now});
    if (now == 2) sink->Add({.name = "fake.c", .value = 30.0 + now});
  });
  sampler.Track(kFirst);
  ASSERT_TRUE(rows_.Await(2));
  clock_.Advance(kNsPerMillisecond);
  ASSERT_TRUE(rows_.Await(3));
  clock_.Advance(kNsPerMillisecond);
  ASSERT_TRUE(rows_.Await(6));
  const auto a = rows_.RowsOf(kFirst, "fake.a"), b = rows_.RowsOf(kFirst, "fake.b");
  ASSERT_THAT(a, SizeIs(2));
  ASSERT_THAT(b, SizeIs(3));
  EXPECT_EQ(a[1].value, 12);
  EXPECT_EQ(b[1].value, 21);
  EXPECT_EQ(b[2].value, 22);
  EXPECT_EQ(rows_.RowsOf(kFirst, "fake.c")[0].value, 32);
}

TEST_F(SamplerTest, TicksThatASlowSourceMissesAreLossRowsOfEveryRun) {
  Sampler& sampler = With(milliseconds(1), [this](MetricSink* sink) {
    SayOne(sink);
    if (is_slow_.exchange(false)) clock_.Advance(10 * kNsPerMillisecond);
  });
  sampler.Track(kFirst);
  sampler.Track(kSecond);
  ASSERT_TRUE(rows_.Await(2));
  EXPECT_THAT(rows_.Losses(), IsEmpty());
  is_slow_ = true;
  clock_.Advance(kNsPerMillisecond);
  ASSERT_TRUE(rows_.Await(6)) << "the slow tick and the one after it, in two runs";
  const auto losses = rows_.Losses();
  ASSERT_THAT(losses, SizeIs(2));
  for (const LossRow& loss : losses) {
    EXPECT_EQ(loss.columns[loss_column::kStage], static_cast<int64_t>(LossStage::kSampler));
    EXPECT_EQ(loss.columns[loss_column::kReason], static_cast<int64_t>(LossReason::kTickSkipped));
    EXPECT_EQ(loss.columns[loss_column::kTable], static_cast<int64_t>(TableId::kCounter));
    EXPECT_EQ(loss.columns[loss_column::kCount], 9) << "ten periods passed; the last of their ticks was taken";
    EXPECT_EQ(loss.columns[loss_column::kDur], 9 * kNsPerMillisecond);
    EXPECT_EQ(loss.lane.text, "fake");
  }
  EXPECT_NE(losses[0].run, losses[1].run);
  EXPECT_EQ(sampler.States()[0].numbers.at("skipped_ticks"), "9");
}

TEST_F(SamplerTest, StopDeliversTheLastValuesAndStopsTheSources) {
  Sampler& sampler = With(kNever, SayOne);
  sampler.Track(kFirst);
  ASSERT_TRUE(rows_.Await(1));
  sampler.Stop();
  EXPECT_THAT(rows_.Rows(), SizeIs(2));
  EXPECT_EQ(log_.stops, 1);
  sampler.Stop();
  sampler.Track(kSecond);
  sampler.Untrack(kSecond);
  EXPECT_EQ(log_.starts, 1);
}

TEST_F(SamplerTest, WithoutSourcesNothingHappens) {
  Sampler sampler({}, &rows_, &clock_, [](RunId) { return std::vector<ProcessKey>(); });
  sampler.Track(kFirst);
  sampler.Untrack(kFirst);
  sampler.Stop();
  EXPECT_THAT(rows_.Rows(), IsEmpty());
  EXPECT_THAT(sampler.States(), IsEmpty());
}

}  // namespace
}  // namespace stepscope
