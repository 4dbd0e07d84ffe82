// SPDX-License-Identifier: Apache-2.0
// Perf counters against a PMU of the test's making: this runs on machines without one.
#include "daemon/collector/host/perf_counters.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <set>

#include "tests/unit/host/fake_tree.h"

namespace stepscope {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr char kCycles[] = "perf.cycles_total";
constexpr char kInstructions[] = "perf.instructions_total";
constexpr char kSwitches[] = "perf.context-switches_total";

/// Hands out descriptors of /dev/null and answers reads of them.
class FakePmu {
 public:
  struct Reading {
    uint64_t enabled_ns = 0;
    uint64_t running_ns = 0;
    uint64_t count = 0;  ///< of every member
  };

  std::map<std::string, int> refuse;          ///< event → errno
  std::set<std::string> refuse_in_group;      ///< EINVAL as a member
  std::set<int> offline;                      ///< ENODEV
  std::map<int, Reading> hardware, software;  ///< by cpu
  int most_members = 0;

  PerfCalls Calls() {
    return {[this](const PerfEvent& event, int cpu, int group_fd) { return Open(event, cpu, group_fd); },
            [this](int fd) { groups_.at(fd).is_enabled = true; },
            [this](int fd, std::span<uint64_t> words) { return Read(fd, words); }};
  }
  size_t groups_of(int cpu) const {
    size_t count = 0;
    for (const auto& [fd, group] : groups_) count += group.cpu == cpu && fcntl(fd, F_GETFD) >= 0;
    return count;
  }

 private:
  struct Group {
    int cpu = 0;
    bool is_software = false;
    uint64_t members = 1;
    bool is_enabled = false;
  };

  int Open(const PerfEvent& event, int cpu, int group_fd) {
    if (offline.contains(cpu)) return -ENODEV;
    if (const auto it = refuse.find(event.name); it != refuse.end()) return -it->second;
    if (group_fd >= 0 && refuse_in_group.contains(event.name)) return -EINVAL;
    const int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (group_fd < 0) {
      groups_[fd] = {cpu, event.is_software, 1, false};
    } else {
      groups_.erase(fd);
      EXPECT_FALSE(groups_.at(group_fd).is_enabled) << "joined a group that runs";
      most_members = std::max(most_members, static_cast<int>(++groups_.at(group_fd).members));
    }
    return fd;
  }

  ssize_t Read(int fd, std::span<uint64_t> words) {
    const Group& group = groups_.at(fd);
    EXPECT_TRUE(group.is_enabled) << "read before it was started";
    const Reading reading = group.is_software ? software[group.cpu] : hardware[group.cpu];
    words[0] = group.members;
    words[1] = reading.enabled_ns;
    words[2] = reading.running_ns;
    for (size_t i = 0; i < group.members; ++i) words[3 + i] = reading.count;
    return static_cast<ssize_t>((3 + group.members) * sizeof(uint64_t));
  }

  std::map<int, Group> groups_;
};

class PerfCountersTest : public testing::Test {
 protected:
  PerfCountersTest() { tree_.Write("/sys/devices/system/cpu/online", "0-1\n"); }
  PerfCounters& With(const std::string& events) {
    source_.emplace(PerfCounters::Options{.events = events, .root = tree_.root()}, pmu_.Calls());
    return *source_;
  }

  FakeTree tree_;
  FakePmu pmu_;
  std::optional<PerfCounters> source_;
};

TEST_F(PerfCountersTest, EachCpuAndTheirSumAreCounted) {
  PerfCounters& source = With("cycles, instructions ,context-switches,cpu-clock");
  EXPECT_EQ(source.State().state, "idle");
  EXPECT_EQ(source.State().reason, "");
  source.Start();
  pmu_.hardware = {{0, {10, 10, 100}}, {1, {10, 10, 40}}};
  pmu_.software = {{0, {10, 10, 3}}, {1, {10, 10, 4}}};
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values(kCycles, "cpu0"), 100);
  EXPECT_EQ(values(kCycles, "cpu1"), 40);
  EXPECT_EQ(values(kInstructions), 140);
  EXPECT_EQ(values(kSwitches), 7);
  EXPECT_TRUE(values.Has("perf.cpu-clock_ns_total", "cpu0")) << "a clock has its unit in its name";
  EXPECT_FALSE(values.Of(kCycles, "cpu0").scaled);
  EXPECT_EQ(source.State().state, "on");
  source.Stop();
  EXPECT_EQ(pmu_.groups_of(0), 0u) << "closed";
}

TEST_F(PerfCountersTest, WithoutAPmuOnlySoftwareIsCountedAndTheStateSaysWhy) {
  pmu_.refuse = {{"cycles", ENOENT}, {"instructions", ENOENT}};
  PerfCounters& source = With("cycles,instructions,context-switches");
  source.Start();
  pmu_.software = {{0, {10, 10, 3}}, {1, {10, 10, 4}}};
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values(kSwitches), 7);
  EXPECT_EQ(values.size(), 3u) << "nothing is made up for the others";
  const CollectorState state = source.State();
  EXPECT_EQ(state.state, "on");
  EXPECT_EQ(state.level, "full");
  EXPECT_THAT(state.reason, StartsWith("hardware counters not available (perf_event_open(cycles) on cpu 0: ENOENT"));
  EXPECT_THAT(state.next_step, HasSubstr("exposes its performance counters"));
}

TEST_F(PerfCountersTest, WithoutRightsNothingIsCountedAndTheNextStepNamesTheCapability) {
  pmu_.refuse = {{"cycles", EACCES}, {"context-switches", EACCES}};
  PerfCounters& source = With("cycles,context-switches");
  source.Start();
  EXPECT_EQ(SampleOf(source).size(), 0u);
  EXPECT_EQ(source.State().state, "unavailable");
  EXPECT_EQ(source.State().level, "none");
  EXPECT_THAT(source.State().reason, HasSubstr("EACCES"));
  EXPECT_THAT(source.State().next_step, HasSubstr("CAP_PERFMON"));
}

TEST_F(PerfCountersTest, AnEventThisMachineRefusesIsMissingTheOthersCount) {
  pmu_.refuse = {{"instructions", EINVAL}};
  PerfCounters& source = With("cycles,instructions,no-such-event,context-switches");
  source.Start();
  pmu_.hardware = {{0, {10, 10, 1}}, {1, {10, 10, 1}}};
  EXPECT_TRUE(SampleOf(source).Has(kCycles));
  EXPECT_THAT(source.State().reason, StartsWith("2 of 4 counters not available (perf_event_open(instructions)"));
}

TEST_F(PerfCountersTest, OfAlternativesTheFirstThatWorksIsCountedUnderItsOwnName) {
  pmu_.refuse = {{"ref-cycles", ENOENT}};
  PerfCounters& source = With("no-such-event|ref-cycles|cycles|instructions");
  source.Start();
  pmu_.hardware = {{0, {10, 10, 5}}, {1, {10, 10, 5}}};
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values(kCycles), 10);
  EXPECT_FALSE(values.Has(kInstructions));
  EXPECT_EQ(source.State().reason, "");
}

TEST_F(PerfCountersTest, TheNameOthersGiveToReferenceCyclesIsKnown) {
  const auto event = FindPerfEvent("clk_unhalted_ref.tsc");
  ASSERT_TRUE(event.ok()) << event.status();
  EXPECT_EQ(event->name, "clk_unhalted_ref.tsc");
  EXPECT_EQ(event->config, FindPerfEvent("ref-cycles")->config);
  EXPECT_TRUE(FindPerfEvent("cycles:k")->exclude_user);
  EXPECT_TRUE(FindPerfEvent("page-faults")->is_software);
  EXPECT_FALSE(FindPerfEvent("iTLB-load-misses")->is_software);
}

TEST_F(PerfCountersTest, GrowthCountedForPartOfTheTimeIsScaledAndFlagged) {
  PerfCounters& source = With("cycles");
  source.Start();
  pmu_.hardware = {{0, {100, 100, 1'000}}, {1, {100, 100, 1'000}}};
  EXPECT_FALSE(SampleOf(source).Of(kCycles, "cpu0").scaled);
  pmu_.hardware[0] = {300, 150, 1'500};  // 500 in 50 of 200 ns
  pmu_.hardware[1] = {300, 300, 3'000};
  const KeptValues values = SampleOf(source);
  EXPECT_EQ(values(kCycles, "cpu0"), 1'000 + 500 * 4);
  EXPECT_TRUE(values.Of(kCycles, "cpu0").scaled);
  EXPECT_FALSE(values.Of(kCycles, "cpu1").scaled);
  EXPECT_EQ(values(kCycles), 6'000);
  EXPECT_TRUE(values.Of(kCycles).scaled) << "a sum with an estimate in it is an estimate";
}

TEST_F(PerfCountersTest, ACounterThatHadNoTurnHasNoValueAndTheNextTurnStandsForThatTime) {
  PerfCounters& source = With("cycles");
  source.Start();
  pmu_.hardware = {{0, {100, 100, 1'000}}, {1, {100, 100, 1'000}}};
  SampleOf(source);
  pmu_.hardware[0] = {200, 100, 1'000};
  pmu_.hardware[1] = {200, 200, 2'000};
  const KeptValues starved = SampleOf(source);
  EXPECT_FALSE(starved.Has(kCycles, "cpu0"));
  EXPECT_TRUE(starved.Of(kCycles).scaled);
  pmu_.hardware[0] = {300, 200, 2'000};
  pmu_.hardware[1] = {300, 300, 3'000};
  EXPECT_EQ(SampleOf(source)(kCycles, "cpu0"), 1'000 + 1'000 * 2);
}

TEST_F(PerfCountersTest, ACpuThatGoesOfflineAndComesBackGoesOnCounting) {
  PerfCounters& source = With("cycles,context-switches");
  source.Start();
  pmu_.hardware = {{0, {100, 100, 10}}, {1, {100, 100, 20}}};
  pmu_.software = pmu_.hardware;
  EXPECT_EQ(SampleOf(source)(kCycles), 30);

  tree_.Write("/sys/devices/system/cpu/online", "0\n");
  pmu_.offline = {1};
  pmu_.hardware[0] = pmu_.software[0] = {200, 200, 15};
  const KeptValues without = SampleOf(source);
  EXPECT_FALSE(without.Has(kCycles, "cpu1"));
  EXPECT_EQ(without(kCycles), 35) << "a sum never falls";

  tree_.Write("/sys/devices/system/cpu/online", "0-1\n");
  pmu_.offline = {};
  pmu_.hardware[0] = pmu_.software[0] = {300, 300, 16};
  pmu_.hardware[1] = pmu_.software[1] = {5, 5, 4};  // counted anew
  const KeptValues back = SampleOf(source);
  EXPECT_EQ(back(kCycles, "cpu1"), 24);
  EXPECT_EQ(back(kCycles), 40);
}

TEST_F(PerfCountersTest, ACpuThatWasOfflineBetweenTwoTicksIsOpenedAgain) {
  PerfCounters& source = With("context-switches");
  source.Start();
  pmu_.software = {{0, {100, 100, 10}}, {1, {100, 100, 20}}};
  SampleOf(source);
  pmu_.software[0] = {200, 200, 11};
  EXPECT_FALSE(SampleOf(source).Has(kSwitches, "cpu1")) << "its time stood still: the kernel dropped it";
  pmu_.software[0] = {300, 300, 12};
  pmu_.software[1] = {50, 50, 3};
  EXPECT_EQ(SampleOf(source)(kSwitches, "cpu1"), 23);
}

TEST_F(PerfCountersTest, EventsThatCannotBeCountedAtOnceAreReadAlone) {
  pmu_.refuse_in_group = {"cache-misses"};
  PerfCounters& source = With("cycles,instructions,cache-misses,ref-cycles,branches,context-switches,page-faults");
  source.Start();
  EXPECT_EQ(pmu_.groups_of(0), 3u) << "cycles+instructions, cache-misses+ref-cycles+branches, software";
  EXPECT_EQ(pmu_.most_members, 3);
  pmu_.hardware = {{0, {10, 10, 1}}, {1, {10, 10, 1}}};
  pmu_.software = pmu_.hardware;
  EXPECT_EQ(SampleOf(source).size(), 7u * 3);
}

}  // namespace
}  // namespace stepscope
