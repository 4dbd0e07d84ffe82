// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/rpc/rpc_fixture.h"

namespace stepscope {
namespace {

using Clock_ = std::chrono::steady_clock;

class WatchTest : public RpcFixture {
 protected:
  std::unique_ptr<grpc::ClientReader<v1::Utilization>> Watch(const std::string& job, uint32_t max_updates) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    v1::WatchUtilizationRequest request;
    request.set_job(job);
    request.set_max_updates(max_updates);
    return query_->WatchUtilization(&context_, request);
  }
  grpc::ClientContext context_;
};

TEST_F(WatchTest, TheFirstUpdateComesAtOnceAndTheStreamEndsAfterTheLast) {
  const auto begin = Clock_::now();
  const auto stream = Watch("", 1);
  v1::Utilization update;
  ASSERT_TRUE(stream->Read(&update));
  EXPECT_LT(Clock_::now() - begin, std::chrono::seconds(5));
  ASSERT_EQ(update.jobs_size(), 1);
  EXPECT_EQ(update.jobs(0).name(), "train");
  ASSERT_EQ(update.jobs(0).ranks_size(), 1);
  const v1::RankUtilization& rank = update.jobs(0).ranks(0);
  EXPECT_EQ(rank.rank(), 0);
  EXPECT_EQ(rank.pid(), getpid());
  EXPECT_EQ(rank.state(), "");
  EXPECT_NEAR(rank.running() + rank.runnable() + rank.sleeping(), 1.0, 1e-9);
  EXPECT_NE(update.jobs(0).devices_note(), "");
  EXPECT_FALSE(stream->Read(&update));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(WatchTest, ThenOneASecond) {
  const auto stream = Watch("train", 3);
  v1::Utilization update;
  std::vector<int64_t> times;
  while (stream->Read(&update)) times.push_back(update.node_ns());
  ASSERT_EQ(times.size(), 3u);
  EXPECT_GE(times[2] - times[1], kNsPerSecond - 100 * kNsPerMillisecond);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(WatchTest, AnUnknownJobEndsTheStream) {
  const auto stream = Watch("nope", 0);
  v1::Utilization update;
  EXPECT_FALSE(stream->Read(&update));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST_F(WatchTest, OthersSeeNoJob) {
  caller_uid_ = 4242;
  const auto stream = Watch("", 1);
  v1::Utilization update;
  ASSERT_TRUE(stream->Read(&update));
  EXPECT_EQ(update.jobs_size(), 0);
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(WatchTest, WhenTheJobEndsTheLastUpdateSaysSo) {
  const auto stream = Watch("train", 0);
  v1::Utilization update;
  ASSERT_TRUE(stream->Read(&update));
  ASSERT_TRUE(node_.jobs.EndJob(node_.run, "test").ok());
  while (stream->Read(&update)) {
  }
  ASSERT_EQ(update.jobs_size(), 1);
  EXPECT_EQ(update.jobs(0).state(), "ended");
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(WatchTest, ACancelledClientAndAStoppedServerLeaveNothingBehind) {
  const auto stream = Watch("", 0);
  v1::Utilization update;
  ASSERT_TRUE(stream->Read(&update));
  context_.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);

  grpc::ClientContext second_context;
  const auto second = query_->WatchUtilization(&second_context, {});
  ASSERT_TRUE(second->Read(&update));
  server_.Stop();
  while (second->Read(&update)) {
  }
  EXPECT_FALSE(second->Finish().ok());
}

}  // namespace
}  // namespace stepscope
