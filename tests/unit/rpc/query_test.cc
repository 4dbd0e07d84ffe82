// SPDX-License-Identifier: Apache-2.0
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <bit>

#include "analysis/system_call.h"
#include "base/valid_utf8.h"
#include "daemon/pipeline/rollup.h"
#include "tests/unit/rpc/rpc_fixture.h"

namespace stepscope {
namespace {

using testing::HasSubstr;

constexpr int64_t kBase = 1000 * kNsPerSecond;  // start of the job
constexpr int64_t kMs = kNsPerMillisecond;

class QueryTest : public RpcFixture {
 protected:
  void SetUp() override { node_.clock.node = {kBase + 10 * kNsPerSecond}; }
};

TEST_F(QueryTest, NodeSaysWhoItIsToAnyone) {
  caller_uid_.reset();
  v1::Node node;
  ASSERT_TRUE(Call(*query_, &Q::GetNode, {}, &node).ok());
  EXPECT_EQ(node.hostname(), "node-a");
  EXPECT_EQ(node.grpc_address(), bound_.address);
  EXPECT_EQ(node.running_jobs(), 1u);
  EXPECT_EQ(node.collectors(0).reason(), "no BTF");
  EXPECT_GT(node.rss_bytes(), 0u);
  EXPECT_EQ(node.store_bytes(), 1000u);
}

TEST_F(QueryTest, AJobIsFoundByNameIdFullIdAndLast) {
  const std::string full = std::to_string(geteuid()) + ".run.train-7";
  for (const std::string& ref : {std::string(), std::string("last"), std::string("train"), std::string("train-7"), full}) {
    v1::GetJobRequest request;
    request.set_job(ref);
    v1::Job job;
    ASSERT_TRUE(Call(*query_, &Q::GetJob, request, &job).ok()) << ref;
    EXPECT_EQ(job.job(), full);
    EXPECT_EQ(job.state(), "running");
    ASSERT_EQ(job.ranks_size(), 1);
    EXPECT_EQ(job.ranks(0).pid(), getpid());
  }
  v1::GetJobRequest request;
  request.set_job("nope");
  v1::Job job;
  const grpc::Status status = Call(*query_, &Q::GetJob, request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("there is: train"));
}

TEST_F(QueryTest, AJobThatCameAgainListsItsRunsAndGivesTheOneAskedFor) {
  ASSERT_TRUE(node_.jobs.EndJob(node_.run, "").ok());
  StartJobSpec again;
  again.id = "train-7";
  again.name = "train";
  again.uid = geteuid();
  again.root = node_.self;
  const RunId newest = node_.jobs.StartJob(again)->run;
  const auto get = [&](const std::string& ref, v1::Job* job) {
    v1::GetJobRequest request;
    request.set_job(ref);
    return Call(*query_, &Q::GetJob, request, job);
  };
  v1::Job job;
  ASSERT_TRUE(get("train", &job).ok());
  EXPECT_EQ(job.run(), newest.value);
  ASSERT_EQ(job.history_size(), 2);
  EXPECT_EQ(job.history(0).run(), node_.run.value);
  EXPECT_EQ(job.history(0).state(), "ended");
  EXPECT_EQ(job.history(1).state(), "running");
  EXPECT_EQ(job.history(1).boot_id(), "boot");

  const std::string suffix = "@" + std::to_string(node_.run.value);
  for (const std::string& name : {std::string("train"), std::string("train-7"), std::string()}) {
    v1::Job older;
    ASSERT_TRUE(get(name + suffix, &older).ok()) << name;
    EXPECT_EQ(older.run(), node_.run.value);
    EXPECT_EQ(older.state(), "ended");
    EXPECT_EQ(older.history_size(), 1);
  }
  for (const std::string& wrong : {"bert" + suffix, std::string("train@9"), std::string("train@"), std::string("train@1x")}) {
    EXPECT_EQ(get(wrong, &job).error_code(), grpc::StatusCode::NOT_FOUND) << wrong;
  }
  caller_uid_ = 4242;
  EXPECT_EQ(get("train" + suffix, &job).error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(QueryTest, AJobLastsAsLongAsTheNodesClockSaysWhateverTheWallClockDoes) {
  const auto duration_ns = [&] {
    v1::ListJobsResponse jobs;
    EXPECT_TRUE(Call(*query_, &Q::ListJobs, {}, &jobs).ok());
    return jobs.jobs_size() == 1 ? jobs.jobs(0).dur_ns() : -1;
  };
  node_.clock.node = {kBase + 5 * kNsPerSecond};
  node_.clock.wall_step_ns = -3600 * kNsPerSecond;
  EXPECT_EQ(duration_ns(), 5 * kNsPerSecond);
  ASSERT_TRUE(node_.jobs.EndJob(node_.run, "").ok());
  node_.clock.node.ns += 7 * kNsPerSecond;
  EXPECT_EQ(duration_ns(), 5 * kNsPerSecond);
}

TEST_F(QueryTest, AnotherUserSeesNoneOfIt) {
  caller_uid_ = 4242;
  v1::ListJobsResponse jobs;
  ASSERT_TRUE(Call(*query_, &Q::ListJobs, {}, &jobs).ok());
  EXPECT_EQ(jobs.jobs_size(), 0);
  v1::Summary summary;
  v1::GetSummaryRequest request;
  request.set_job("train");
  const grpc::Status status = Call(*query_, &Q::GetSummary, request, &summary);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_THAT(status.error_message(), testing::Not(HasSubstr("train")));
}

TEST_F(QueryTest, WhoCannotBeIdentifiedIsRefusedWithANextStep) {
  caller_uid_.reset();
  v1::Job job;
  const grpc::Status status = Call(*query_, &Q::GetJob, {}, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("control socket"));
}

TEST_F(QueryTest, AThreadIsNotCalledAsleepWhereItsTurnsWereNotKept) {
  node_.Turn(FakeNode::kMain, 0, kBase + 10 * kMs, 5 * kMs, 100, kSliceFirst);
  node_.Turn(FakeNode::kMain, 0, kBase + 20 * kMs, 3 * kMs, 101);
  node_.Turn(FakeNode::kMain, 0, kBase + 50 * kMs, 1 * kMs, 110);
  v1::Summary summary;
  ASSERT_TRUE(Call(*query_, &Q::GetSummary, {}, &summary).ok());
  EXPECT_EQ(summary.threads(0).sleeping_ns(), (41 - 9) * kMs) << "a kernel that lost turns: an upper bound";
  node_.totals.totals.loss[{static_cast<int64_t>(LossStage::kRetention), static_cast<int64_t>(LossReason::kEvicted),
                            static_cast<int64_t>(TableId::kSchedSlice)}] = {8, 90};
  ASSERT_TRUE(Call(*query_, &Q::GetSummary, {}, &summary).ok());
  EXPECT_EQ(summary.threads(0).sleeping_ns(), 5 * kMs);
  EXPECT_EQ(summary.loss(0).reason(), "not kept");
}

TEST_F(QueryTest, SummaryAddsUpThreadsProcessesSpansAndSteps) {
  node_.Turn(FakeNode::kMain, 1 * kMs, kBase + 10 * kMs, 5 * kMs, 100, kSliceFirst);
  node_.Turn(FakeNode::kMain, 2 * kMs, kBase + 20 * kMs, 7 * kMs, 103, static_cast<int64_t>(SliceState::kPreempted));
  node_.Turn(FakeNode::kWorkerThread, 0, kBase + 10 * kMs, 1 * kMs, 7);
  node_.Span(FakeNode::kMain, SpanDomain::kStep, FakeNode::kStepName, kBase + 10 * kMs, 10 * kMs, 0);
  node_.Span(FakeNode::kMain, SpanDomain::kStep, FakeNode::kStepName, kBase + 25 * kMs, 30 * kMs, 1);
  node_.Span(FakeNode::kMain, SpanDomain::kLoader, FakeNode::kLoaderName, kBase + 20 * kMs, 4 * kMs);
  node_.totals.totals.tables[TableId::kSpan] = {3, 120};
  node_.totals.totals.loss[{1, 1, 3}] = {9, 90};

  v1::Summary summary;
  ASSERT_TRUE(Call(*query_, &Q::GetSummary, {}, &summary).ok());
  ASSERT_EQ(summary.threads_size(), 2);
  const v1::ThreadSummary& main = summary.threads(0);
  EXPECT_EQ(main.rank(), 0);
  EXPECT_EQ(main.running_ns(), 12 * kMs);
  EXPECT_EQ(main.runnable_ns(), 3 * kMs);
  EXPECT_EQ(main.sleeping_ns(), (27 - 9 - 12 - 3) * kMs);
  EXPECT_EQ(main.seq_holes(), 2u);
  EXPECT_EQ(main.preempted(), 1u);
  EXPECT_EQ(main.max_wait_ns(), 2 * kMs);
  ASSERT_EQ(summary.processes_size(), 2);
  EXPECT_EQ(summary.processes(0).role(), "rank");
  EXPECT_EQ(summary.processes(0).name(), "python train.py");
  ASSERT_EQ(summary.steps_size(), 1);
  EXPECT_EQ(summary.steps(0).count(), 2u);
  EXPECT_EQ(summary.steps(0).median_ns(), 10 * kMs);
  EXPECT_EQ(summary.steps(0).loader_ns(), 4 * kMs);
  ASSERT_EQ(summary.spans_size(), 2);
  EXPECT_EQ(summary.spans(0).name(), "step");
  EXPECT_EQ(summary.spans(0).total_ns(), 40 * kMs);
  EXPECT_EQ(summary.loss(0).reason(), "ring full");
  EXPECT_EQ(summary.overhead().stored_bytes(), 120u);
  EXPECT_FALSE(summary.final());
}

TEST_F(QueryTest, SummaryNamesWhatAThreadSleptForAndWhoEndedIt) {
  constexpr int64_t kFutex = ThisMachine() == Machine::kX86 ? 202 : 98;
  constexpr int64_t kNanosleep = ThisMachine() == Machine::kX86 ? 230 : 115;
  node_.dictionary.entities[FakeNode::kProcess].gil = {0x1000, 0x10D0};
  const auto turn = [&](uint32_t lane, int64_t on, int64_t dur, int64_t seq, int64_t call, int64_t arg0, int64_t waker) {
    const auto kind = static_cast<int64_t>(waker == 0 ? WakerKind::kTimer : WakerKind::kTask);
    node_.Rows(TableId::kSchedSlice).Append(lane, {kBase + on, dur, 0, 0, waker, kind, call, arg0, 0, seq, dur, 0, 0, 0, 0});
  };
  turn(FakeNode::kMain, 0, kMs, 1, kFutex, 0x9000, 0);
  turn(FakeNode::kMain, 40 * kMs, kMs, 2, kFutex, 0x1028, 999'999);
  turn(FakeNode::kMain, 50 * kMs, kMs, 3, kFutex, 0x1028, 0);
  turn(FakeNode::kWorkerThread, 0, kMs, 1, kNanosleep, 1, 0);
  turn(FakeNode::kWorkerThread, 30 * kMs, 20 * kMs, 2, kNanosleep, 1, 0);
  v1::Summary summary;
  ASSERT_TRUE(Call(*query_, &Q::GetSummary, {}, &summary).ok());
  EXPECT_FALSE(summary.waits_cut());
  ASSERT_EQ(summary.threads_size(), 2);
  const auto& main = summary.threads(0).tid() == getpid() ? summary.threads(0) : summary.threads(1);
  ASSERT_EQ(main.waits_size(), 2);
  EXPECT_EQ(main.waits(0).cause(), "lock");
  EXPECT_EQ(main.waits(0).syscall(), "futex");
  EXPECT_EQ(main.waits(0).ns(), 39 * kMs);
  EXPECT_EQ(main.waits(0).peer().tid(), 999'999);
  EXPECT_EQ(main.waits(0).peer().process(), "python worker");
  EXPECT_EQ(main.waits(0).root().doing(), "clock_nanosleep");
  EXPECT_EQ(main.waits(0).end(), "timer");
  EXPECT_EQ(main.waits(1).cause(), "gil");
  EXPECT_EQ(main.waits(1).timeouts(), 1u);
  EXPECT_FALSE(main.waits(1).has_peer());
}

TEST_F(QueryTest, SummaryNamesWhoTookTheCpu) {
  node_.Turn(FakeNode::kMain, 10 * kMs, kBase + 150 * kMs, 100 * kMs, 1);
  const auto part = [&](int64_t start, int64_t part_ns, OccupantClass klass, int64_t pid, int64_t name) {
    node_.Rows(TableId::kSchedWait)
        .Append(FakeNode::kMain, {kBase + start, 10 * kMs, pid, pid, part_ns, static_cast<int64_t>(klass), name, 0});
  };
  part(0, 7 * kMs, OccupantClass::kSameUser, 4242, FakeNode::kStepName);
  part(0, 3 * kMs, OccupantClass::kOtherUser, 0, 0);
  part(20 * kMs, 10 * kMs, OccupantClass::kSameUser, 4242, FakeNode::kStepName);
  v1::Summary summary;
  ASSERT_TRUE(Call(*query_, &Q::GetSummary, {}, &summary).ok());
  ASSERT_EQ(summary.processes_size(), 1);
  ASSERT_EQ(summary.processes(0).occupants_size(), 2);
  const auto& hog = summary.processes(0).occupants(0);
  EXPECT_EQ(hog.pid(), 4242);
  EXPECT_FALSE(hog.name().empty());
  EXPECT_EQ(hog.class_(), "same user");
  EXPECT_EQ(hog.ns(), 17 * kMs);
  EXPECT_EQ(summary.processes(0).occupants(1).class_(), "other user");
  EXPECT_EQ(summary.processes(0).occupants(1).pid(), 0);
  EXPECT_EQ(summary.processes(0).occupants(1).ns(), 3 * kMs);
}

TEST_F(QueryTest, StepsCarryWhatTheirThreadDid) {
  node_.Span(FakeNode::kMain, SpanDomain::kStep, FakeNode::kStepName, kBase + 100 * kMs, 100 * kMs, 3);
  node_.Span(FakeNode::kMain, SpanDomain::kLoader, FakeNode::kLoaderName, kBase + 90 * kMs, 30 * kMs);
  node_.Turn(FakeNode::kMain, 10 * kMs, kBase + 150 * kMs, 100 * kMs, 1);
  node_.Turn(FakeNode::kWorkerThread, 10 * kMs, kBase + 150 * kMs, 10 * kMs, 1);
  v1::ListStepsResponse steps;
  v1::ListStepsRequest request;
  request.set_all_ranks(true);
  ASSERT_TRUE(Call(*query_, &Q::ListSteps, request, &steps).ok());
  ASSERT_EQ(steps.steps_size(), 1);
  EXPECT_EQ(steps.steps(0).number(), 3);
  EXPECT_EQ(steps.steps(0).rank(), 0);
  EXPECT_EQ(steps.steps(0).running_ns(), 50 * kMs);
  EXPECT_EQ(steps.steps(0).runnable_ns(), 10 * kMs);
  EXPECT_EQ(steps.steps(0).loader_ns(), 20 * kMs);
  EXPECT_EQ(steps.steps(0).source(), "user");

  request.set_all_ranks(false);
  request.set_rank(1);
  steps.Clear();
  ASSERT_TRUE(Call(*query_, &Q::ListSteps, request, &steps).ok());
  EXPECT_EQ(steps.steps_size(), 0);
  request.set_rank(-1);
  EXPECT_EQ(Call(*query_, &Q::ListSteps, request, &steps).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
}

TEST_F(QueryTest, StepsBeyondTheLimitAreCutAndSaySo) {
  for (int i = 0; i < 10; ++i) node_.Span(FakeNode::kMain, SpanDomain::kStep, FakeNode::kStepName, kBase + i * kMs, kMs, i);
  v1::ListStepsRequest request;
  request.set_all_ranks(true);
  request.set_limit(4);
  v1::ListStepsResponse steps;
  ASSERT_TRUE(Call(*query_, &Q::ListSteps, request, &steps).ok());
  EXPECT_EQ(steps.steps_size(), 4);
  EXPECT_TRUE(steps.cut());
  EXPECT_EQ(steps.steps(3).number(), 3);
}

TEST_F(QueryTest, SlicesAreOrderedCutAndCounted) {
  for (int i = 9; i >= 0; --i)
    node_.Span(FakeNode::kMain, SpanDomain::kUser, FakeNode::kForwardName, kBase + i * kMs, kMs / 2, i);
  v1::GetSlicesRequest request;
  request.set_table("span");
  request.set_limit(3);
  v1::GetSlicesResponse slices;
  ASSERT_TRUE(Call(*query_, &Q::GetSlices, request, &slices).ok());
  ASSERT_EQ(slices.slices_size(), 3);
  EXPECT_EQ(slices.slices(0).start_ns(), kBase);
  EXPECT_EQ(slices.slices(2).start_ns(), kBase + 2 * kMs);
  EXPECT_EQ(slices.slices(0).name(), "forward");
  EXPECT_EQ(slices.total(), 10u);
  EXPECT_TRUE(slices.cut());
  EXPECT_EQ(slices.slices(0).fields_size(), 6);  // domain, number, has_number, depth, token, flags

  request.set_newest_first(true);
  request.set_begin_ns(kBase + 4 * kMs);
  request.set_end_ns(kBase + 6 * kMs);
  slices.Clear();
  ASSERT_TRUE(Call(*query_, &Q::GetSlices, request, &slices).ok());
  ASSERT_EQ(slices.slices_size(), 2);
  EXPECT_EQ(slices.slices(0).start_ns(), kBase + 5 * kMs);
  EXPECT_FALSE(slices.cut());
}

TEST_F(QueryTest, AnAnswerStaysBelowWhatEveryClientAccepts) {
  for (int i = 0; i < 50'000; ++i)
    node_.Span(FakeNode::kMain, SpanDomain::kUser, FakeNode::kForwardName, kBase + i * 1000, 500, i);
  v1::GetSlicesRequest request;
  request.set_table("span");
  request.set_limit(100'000);
  v1::GetSlicesResponse slices;
  const grpc::Status status = Call(*query_, &Q::GetSlices, request, &slices);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(slices.cut());
  EXPECT_EQ(slices.total(), 50'000u);
  EXPECT_LT(slices.ByteSizeLong(), 4u << 20);
  EXPECT_GT(slices.slices_size(), 10'000);
}

TEST_F(QueryTest, ANameThatIsNotUtf8IsMended) {
  node_.Span(FakeNode::kMain, SpanDomain::kUser, FakeNode::kBrokenName, kBase, kMs);
  v1::GetSlicesRequest request;
  request.set_table("span");
  v1::GetSlicesResponse slices;
  ASSERT_TRUE(Call(*query_, &Q::GetSlices, request, &slices).ok());
  EXPECT_EQ(slices.slices(0).name(), "bad\xEF\xBF\xBDname");
}

// A client refuses a whole answer for one string that is not UTF-8.
TEST_F(QueryTest, ThreadsAndProcessesMayNameThemselvesWithAnyBytes) {
  for (const std::string name : {"\xff\xfe\x80", "two\nlines", "\x1b[2J", "", "\xc3\xa9 cut \xc3", "%s {} \\ \""}) {
    SCOPED_TRACE(name);
    for (const uint32_t lane : {FakeNode::kProcess, FakeNode::kMain, FakeNode::kWorker, FakeNode::kWorkerThread})
      node_.dictionary.entities[lane].name = name;
    node_.dictionary.names[FakeNode::kStepName] = name;
    node_.rows.batches.clear();
    node_.Turn(FakeNode::kMain, 10 * kMs, kBase + 150 * kMs, 100 * kMs, 1);
    node_.Turn(FakeNode::kWorkerThread, 10 * kMs, kBase + 150 * kMs, 100 * kMs, 1);
    node_.Rows(TableId::kSchedWait)
        .Append(FakeNode::kMain,
                {kBase, 7 * kMs, 4242, 4242, 7 * kMs, static_cast<int64_t>(OccupantClass::kSameUser), FakeNode::kStepName, 0});
    v1::Summary summary;
    ASSERT_TRUE(Call(*query_, &Q::GetSummary, {}, &summary).ok());
    ASSERT_EQ(summary.threads_size(), 2);
    EXPECT_EQ(summary.threads(0).name(), ValidUtf8(name));
    EXPECT_EQ(summary.processes(0).name(), ValidUtf8(name));
    EXPECT_EQ(summary.processes(0).occupants(0).name(), ValidUtf8(name));
    std::string json;
    ASSERT_TRUE(google::protobuf::util::MessageToJsonString(summary, &json).ok());
    EXPECT_EQ(json, ValidUtf8(json));
    EXPECT_TRUE(std::ranges::none_of(json, [](unsigned char c) { return c < ' '; })) << "a control character is not JSON";
    v1::GetSlicesRequest request;
    request.set_table("sched_wait");
    v1::GetSlicesResponse slices;
    EXPECT_TRUE(Call(*query_, &Q::GetSlices, request, &slices).ok());
    v1::ListTracksResponse tracks;
    EXPECT_TRUE(Call(*query_, &Q::ListTracks, {}, &tracks).ok());
  }
}

TEST_F(QueryTest, BadRequestsNameTheThingAndTheNextStep) {
  v1::GetSlicesRequest request;
  v1::GetSlicesResponse slices;
  request.set_table("spam");
  grpc::Status status = Call(*query_, &Q::GetSlices, request, &slices);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("sched_slice"));
  request.set_table("span");
  request.set_begin_ns(10);
  request.set_end_ns(5);
  status = Call(*query_, &Q::GetSlices, request, &slices);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("begin_ns < end_ns"));
}

TEST_F(QueryTest, HolesInTheRangeComeWithTheAnswer) {
  Batch& loss = node_.Rows(TableId::kLoss);
  loss.Append(FakeNode::kMain, {kBase + 100 * kMs, 50 * kMs, 2, FakeNode::kMain, 8, 4, 17, -1});
  loss.Append(FakeNode::kMain, {kBase + 900 * kMs, 50 * kMs, 2, FakeNode::kMain, 8, 4, 17, -1});
  v1::GetSlicesRequest request;
  request.set_table("sched_slice");
  request.set_begin_ns(kBase + 120 * kMs);
  request.set_end_ns(kBase + 200 * kMs);
  v1::GetSlicesResponse slices;
  ASSERT_TRUE(Call(*query_, &Q::GetSlices, request, &slices).ok());
  ASSERT_EQ(slices.holes_size(), 1);
  EXPECT_EQ(slices.holes(0).stage(), "kernel");
  EXPECT_EQ(slices.holes(0).reason(), "kernel ring full");
  EXPECT_EQ(slices.holes(0).table(), "sched_slice");
  EXPECT_EQ(slices.holes(0).count(), 17);
}

TEST_F(QueryTest, ADamagedBlockIsAHoleNotAnError) {
  node_.store.blocks_status = absl::DataLossError("block 7 fails its checksum");
  v1::GetSlicesRequest request;
  request.set_table("span");
  v1::GetSlicesResponse slices;
  ASSERT_TRUE(Call(*query_, &Q::GetSlices, request, &slices).ok());
  ASSERT_GE(slices.holes_size(), 1);
  EXPECT_EQ(slices.holes(0).stage(), "store");
}

const v1::Series* FindSeries(const v1::GetSeriesResponse& response, const std::string& name) {
  for (const v1::Series& series : response.series()) {
    if (series.name() == name) return &series;
  }
  return nullptr;
}

TEST_F(QueryTest, SeriesFromRowsAndFromRollupsAreTheSame) {
  node_.Turn(FakeNode::kMain, 100 * kMs, kBase + 800 * kMs, 400 * kMs, 1);
  node_.Span(FakeNode::kMain, SpanDomain::kStep, FakeNode::kStepName, kBase + 500 * kMs, 700 * kMs, 0);
  v1::GetSeriesResponse from_rows;
  ASSERT_TRUE(Call(*query_, &Q::GetSeries, {}, &from_rows).ok());
  const v1::Series* running = FindSeries(from_rows, "running");
  ASSERT_NE(running, nullptr);
  EXPECT_EQ(running->start_ns(), kBase);
  ASSERT_EQ(running->values_size(), 10);
  EXPECT_DOUBLE_EQ(running->values(0), 0.2);
  EXPECT_DOUBLE_EQ(running->values(1), 0.2);
  EXPECT_DOUBLE_EQ(FindSeries(from_rows, "steps")->values(1), 1);

  Rollup rollup(node_.run, [](uint32_t) { return std::string(); });
  for (const auto& [table, batch] : node_.rows.batches) {
    rollup.Add(batch, [](uint32_t) { return EntityId{FakeNode::kProcess}; });
  }
  Seal seal;
  seal.rollups = rollup.Dirty();
  ASSERT_TRUE(node_.store.Commit(seal).ok());
  node_.rows.batches.clear();
  v1::GetSeriesResponse from_rollups;
  ASSERT_TRUE(Call(*query_, &Q::GetSeries, {}, &from_rollups).ok());
  ASSERT_EQ(from_rows.series_size(), from_rollups.series_size());
  for (int i = 0; i < from_rows.series_size(); ++i) {
    EXPECT_EQ(from_rows.series(i).SerializeAsString(), from_rollups.series(i).SerializeAsString());
  }
}

TEST_F(QueryTest, ACounterIsTheLastValueOfEachSecond) {
  Batch& counters = node_.Rows(TableId::kCounter);
  counters.Append(FakeNode::kMetric, {kBase + 100 * kMs, FakeNode::kLossName, std::bit_cast<int64_t>(4.5), 0});
  counters.Append(FakeNode::kMetric, {kBase + 50 * kMs, FakeNode::kLossName, std::bit_cast<int64_t>(9.0), 0});
  v1::GetSeriesRequest request;
  request.add_names("loss");
  request.add_names("nothing");
  v1::GetSeriesResponse response;
  ASSERT_TRUE(Call(*query_, &Q::GetSeries, request, &response).ok());
  const v1::Series* loss = FindSeries(response, "loss");
  ASSERT_NE(loss, nullptr);
  EXPECT_EQ(loss->unit(), "");
  EXPECT_DOUBLE_EQ(loss->values(0), 4.5);
  EXPECT_TRUE(std::isnan(loss->values(1)));
}

TEST_F(QueryTest, ACountersUnitIsTheEndOfItsName) {
  Batch& counters = node_.Rows(TableId::kCounter);
  for (uint32_t name = 0; const char* text : {"cpu.steal_ns_total", "nvml.power_w", "perf.cycles_total", "ns"}) {
    node_.dictionary.names[1'000 + name] = text;
    counters.Append(FakeNode::kMetric, {kBase, 1'000 + name++, std::bit_cast<int64_t>(1.0), 0});
  }
  v1::GetSeriesResponse response;
  ASSERT_TRUE(Call(*query_, &Q::GetSeries, {}, &response).ok());
  EXPECT_EQ(FindSeries(response, "cpu.steal_ns_total")->unit(), "ns");
  EXPECT_EQ(FindSeries(response, "nvml.power_w")->unit(), "W");
  EXPECT_EQ(FindSeries(response, "perf.cycles_total")->unit(), "");
  EXPECT_EQ(FindSeries(response, "ns")->unit(), "");
}

TEST_F(QueryTest, TracksAreTheLanesWithRows) {
  node_.Turn(FakeNode::kMain, 0, kBase, kMs, 1);
  node_.Span(FakeNode::kMain, SpanDomain::kUser, FakeNode::kForwardName, kBase, kMs);
  node_.Turn(FakeNode::kWorkerThread, 0, kBase, kMs, 1);
  v1::ListTracksResponse tracks;
  ASSERT_TRUE(Call(*query_, &Q::ListTracks, {}, &tracks).ok());
  ASSERT_EQ(tracks.tracks_size(), 2);
  EXPECT_EQ(tracks.tracks(0).kind(), "thread");
  EXPECT_EQ(tracks.tracks(0).tables_size(), 2);
  EXPECT_EQ(tracks.tracks(1).name(), "pt_data_worker");
}

TEST_F(QueryTest, WhatIsNotBuiltSaysSoByName) {
  v1::SearchResponse search;
  grpc::Status status = Call(*query_, &Q::Search, {}, &search);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(), HasSubstr("Search is not built yet"));
  grpc::ClientContext context;
  const auto reader = query_->Export(&context, {});
  v1::ExportChunk chunk;
  EXPECT_FALSE(reader->Read(&chunk));
  EXPECT_THAT(reader->Finish().error_message(), HasSubstr("Export is not built yet"));
}

TEST_F(QueryTest, AnExpiredDeadlineEndsTheCall) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() - std::chrono::seconds(1));
  v1::Job job;
  EXPECT_EQ(query_->GetJob(&context, {}, &job).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
}

}  // namespace
}  // namespace stepscope
