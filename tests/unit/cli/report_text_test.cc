// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/report.h"
#include "cli/text_table.h"
#include "sample_report.h"

namespace stepscope::cli {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(ReportTextTest, OpensWithTheJobItsStateAndItsWindow) {
  const std::string text = RenderText(TwoRanks());
  EXPECT_EQ(text.find("job demo (run, done)\n"), 0u);
  EXPECT_THAT(text, HasSubstr("  command  torchrun train.py\n"));
  EXPECT_THAT(text, HasSubstr("  window   2.500 s, 2 ranks, 3 processes\n"));
}

TEST(ReportTextTest, AJobThatStillRunsIsShownSoFar) {
  Report report = TwoRanks();
  report.summary.set_final(false);
  EXPECT_THAT(RenderText(report), HasSubstr("2.500 s so far"));
}

TEST(ReportTextTest, AReasonFollowsTheState) {
  Report report = TwoRanks();
  report.summary.mutable_job()->set_state("failed");
  report.summary.mutable_job()->set_state_reason("upload: bucket is missing");
  EXPECT_EQ(RenderText(report).find("job demo (run, failed): upload: bucket is missing\n"), 0u);
}

TEST(ReportTextTest, StepsShowTheShareOfDataLoading) {
  const std::string text = RenderText(TwoRanks());
  EXPECT_THAT(text, HasSubstr("RANK  STEPS   MEDIAN  FASTEST  SLOWEST  DATA LOADING\n"));
  EXPECT_THAT(text, HasSubstr("   1     20  50.0 ms  40.0 ms  90.0 ms        12.3 %\n"));
}

TEST(ReportTextTest, AProcessWithoutARankShowsADash) {
  EXPECT_THAT(RenderText(TwoRanks()), testing::ContainsRegex("\n +99 +- +launcher +python +3 +5\\.0 ms +0 ns +11\n"));
}

TEST(ReportTextTest, AThreadShowsWaitsPreemptionsAndHoles) {
  EXPECT_THAT(RenderText(TwoRanks()),
              testing::ContainsRegex("\n +100 +0 +python +1\\.900 s +4\\.5 µs +3\\.2 µs +7 ns +1,234 +5\n"));
}

TEST(ReportTextTest, LongListsAreCutAndSaySo) {
  Report report = TwoRanks();
  for (int i = 0; i < 14; ++i) AddThread(&report.summary, 200 + i, "worker", 1'000);
  for (int i = 0; i < 10; ++i) AddProcess(&report.summary, 300 + i, -1, "other", 1, 1, 1);
  const std::string text = RenderText(report);
  EXPECT_THAT(text, HasSubstr("  … and 3 more (--format json has them)\n"));
  EXPECT_THAT(text, HasSubstr("  … and 1 more\n"));
  EXPECT_THAT(text, HasSubstr(" 210 "));
  EXPECT_THAT(text, Not(HasSubstr(" 211 ")));
}

TEST(ReportTextTest, WaitsOfMainThreadsNameWhoEndedThem) {
  Report report = TwoRanks();
  v1::ThreadSummary* main = report.summary.mutable_threads(0);
  v1::WaitSummary* loading = AddWait(main, "poll", "poll", 40'000'000, "timer");
  SetPeer(loading->mutable_peer(), 200, 201, "QueueFeederThre");
  SetPeer(loading->mutable_root(), 200, 200, "pt_data_worker", "clock_nanosleep");
  v1::WaitSummary* gil = AddWait(main, "gil", "futex", 30'000'000, "running");
  SetPeer(gil->mutable_peer(), 100, 110, "rival");
  SetPeer(gil->mutable_root(), 100, 110, "rival");
  AddWait(main, "sleep", "clock_nanosleep", 20'000'000, "timer");
  SetPeer(AddWait(main, "socket", "recvfrom", 10'000'000, "outside")->mutable_peer(), 0, 77, "");
  AddWait(AddThread(&report.summary, 555, "helper", 1), "lock", "futex", 99'000'000, "timer");
  const std::string text = RenderText(report);
  EXPECT_THAT(text, HasSubstr("\nwhat main threads slept for, and who ended it\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n +0  rank 100  poll \\(poll\\) +40\\.0 ms +3  20\\.0 ms  QueueFeederThre of python "
                                           "worker.py 200 ← pt_data_worker of python worker.py 200, in clock_nanosleep\n"));
  EXPECT_THAT(text, testing::ContainsRegex(" gil \\(futex\\) +30\\.0 ms +3  15\\.0 ms  rival, running\n"));
  EXPECT_THAT(text, testing::ContainsRegex(" sleep \\(clock_nanosleep\\) +20\\.0 ms +3  10\\.0 ms  timer\n"));
  EXPECT_THAT(text, HasSubstr(" thread 77, not recorded\n"));
  EXPECT_THAT(text, Not(HasSubstr("lock (futex)"))) << "threads that are not main threads are in the JSON form";
}

TEST(ReportTextTest, APartOfAWaitThatIsCountedElsewhereIsCalledSo) {
  Report report = TwoRanks();
  v1::WaitSummary* gil = AddWait(report.summary.mutable_threads(0), "gil", "futex", 30'000'000, "running");
  SetPeer(gil->mutable_peer(), 100, 110, "rival");
  gil->set_count(0);
  EXPECT_THAT(RenderText(report), testing::ContainsRegex(" gil \\(futex\\) +30\\.0 ms +part  15\\.0 ms  rival"));
}

TEST(ReportTextTest, WaitsOfAPartOfTheWindowSaySo) {
  Report report = TwoRanks();
  AddWait(report.summary.mutable_threads(0), "sleep", "clock_nanosleep", 20'000'000, "timer");
  report.summary.set_waits_cut(true);
  EXPECT_THAT(RenderText(report), HasSubstr("who ended it (of a part of the window)\n"));
}

TEST(ReportTextTest, SpansShowTheirMean) {
  EXPECT_THAT(RenderText(TwoRanks()), testing::ContainsRegex("\n +forward +user +1 +4 +10\\.0 ms +2\\.5 ms +6\\.0 ms\n"));
}

TEST(ReportTextTest, ASpanCountedZeroTimesDividesByNothing) {
  Report report = TwoRanks();
  AddSpan(&report.summary, "never", 0, 0);
  EXPECT_THAT(RenderText(report), testing::ContainsRegex("\n +never +user +1 +0 +0 ns +0 ns"));
}

TEST(ReportTextTest, NoLossIsSaidInWords) {
  EXPECT_THAT(RenderText(TwoRanks()), HasSubstr("\nloss 0: nothing is known to be missing\n"));
}

TEST(ReportTextTest, LossIsNamedAndQualifiesTheNumbers) {
  Report report = TwoRanks();
  AddLoss(&report.summary, "agent", 1'500);
  AddLoss(&report.summary, "kernel", -1);
  const std::string text = RenderText(report);
  EXPECT_THAT(text, HasSubstr("loss: numbers above that cover these holes are lower bounds\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n +agent +ring full +span +1,500\n"));
  EXPECT_THAT(text, testing::ContainsRegex("\n +kernel +ring full +span +unknown\n"));
  EXPECT_THAT(text, Not(HasSubstr("loss 0")));
}

TEST(ReportTextTest, EndsWithItsOwnCost) {
  EXPECT_THAT(
      RenderText(TwoRanks()),
      testing::EndsWith("\nwhat it cost: daemon 250.0 ms CPU, agents 1.5 ms CPU, 1.2 MB stored, daemon memory 60.0 MB\n"));
}

TEST(ReportTextTest, NoNameReachesTheTerminalAsAnEscape) {
  const std::string name = "\x1b[2J\nx\xc2\x9b\x7f";
  Report report = TwoRanks();
  v1::Summary& s = report.summary;
  s.mutable_job()->set_name(name);
  s.mutable_job()->set_command(name);
  s.mutable_job()->set_state_reason(name);
  v1::ThreadSummary* main = s.mutable_threads(0);
  main->set_name(name);
  AddThread(&s, 200, name, 1'000);
  v1::WaitSummary* wait = AddWait(main, "lock", "futex", 30, "blocked");
  SetPeer(wait->mutable_peer(), 500, 510, name);
  SetPeer(wait->mutable_root(), 600, 610, name);
  wait->mutable_root()->set_process(name);
  s.mutable_processes(0)->set_name(name);
  v1::OccupantSummary* occupant = s.mutable_processes(0)->add_occupants();
  occupant->set_name(name);
  occupant->set_ns(10);
  AddSpan(&s, name, 1, 1);
  std::string text = RenderText(report);
  std::erase(text, '\n');
  EXPECT_EQ(Printable(text), text);
  EXPECT_EQ(RenderText(report).find("\nx"), std::string::npos) << "a name began a line of its own";
}

TEST(ReportTextTest, AnEmptySummaryHasNoTables) {
  const std::string text = RenderText(Report());
  EXPECT_THAT(text, HasSubstr("  window   0 ns so far, 0 ranks, 0 processes\n"));
  for (const char* title : {"steps", "processes\n ", "threads", "spans"})
    EXPECT_THAT(text, Not(HasSubstr(std::string("\n") + title)));
  EXPECT_THAT(text, HasSubstr("loss 0"));
}

}  // namespace
}  // namespace stepscope::cli
