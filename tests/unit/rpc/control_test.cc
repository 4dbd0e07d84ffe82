// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>

#include "tests/unit/rpc/rpc_fixture.h"

namespace stepscope {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class ControlTest : public RpcFixture {};

TEST_F(ControlTest, StartJobFollowsAProcessOfTheCaller) {
  v1::StartJobRequest request;
  request.set_name("second");
  request.set_pid(getpid());
  (*request.mutable_facts())["lr"] = "3e-4";
  v1::Job job;
  const grpc::Status status = Call(*control_, &C::StartJob, request, &job);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(job.name(), "second");
  EXPECT_EQ(job.uid(), geteuid());
  EXPECT_EQ(job.facts().at("lr"), "3e-4");
}

TEST_F(ControlTest, StartJobRefusesTheProcessOfAnother) {
  caller_uid_ = 4242;
  v1::StartJobRequest request;
  request.set_name("theirs");
  request.set_pid(getpid());
  v1::Job job;
  const grpc::Status status = Call(*control_, &C::StartJob, request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(status.error_message(), HasSubstr("call as that user or as root"));
}

TEST_F(ControlTest, StartJobChecksWhatItIsGiven) {
  v1::StartJobRequest request;
  v1::Job job;
  EXPECT_EQ(Call(*control_, &C::StartJob, request, &job).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_name("x");
  request.set_kind("cron");
  const grpc::Status status = Call(*control_, &C::StartJob, request, &job);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("slurm"));
}

TEST_F(ControlTest, EndJobStoresEverythingFirst) {
  node_.totals.on_drain = [this] {
    order_.push_back(std::string("drain while ") + JobStateName(node_.jobs.ByRun(node_.run)->state));
  };
  v1::EndJobRequest request;
  request.set_job("train");
  v1::Job job;
  ASSERT_TRUE(Call(*control_, &C::EndJob, request, &job).ok());
  EXPECT_EQ(job.state(), "ended");
  EXPECT_THAT(order_, ElementsAre("flush " + std::to_string(node_.run.value), "drain while running"));
  ASSERT_TRUE(Call(*control_, &C::EndJob, request, &job).ok()) << "ending it again changes nothing";
  EXPECT_EQ(order_.size(), 2u);
}

TEST_F(ControlTest, AnotherUserEndsNothing) {
  caller_uid_ = 4242;
  v1::EndJobRequest request;
  request.set_job("train");
  v1::Job job;
  EXPECT_EQ(Call(*control_, &C::EndJob, request, &job).error_code(), grpc::StatusCode::NOT_FOUND);
  caller_uid_.reset();
  EXPECT_EQ(Call(*control_, &C::EndJob, request, &job).error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_EQ(node_.jobs.ByRun(node_.run)->state, JobState::kRunning);
}

TEST_F(ControlTest, DeleteJobWantsANameAndAnEndedJob) {
  v1::DeleteJobRequest request;
  v1::DeleteJobResponse response;
  EXPECT_EQ(Call(*control_, &C::DeleteJob, request, &response).error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  request.set_job("train");
  const grpc::Status status = Call(*control_, &C::DeleteJob, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("stepscope end train"));
  EXPECT_TRUE(node_.store.deleted.empty());

  ASSERT_TRUE(node_.jobs.EndJob(node_.run, "test").ok());
  ASSERT_TRUE(Call(*control_, &C::DeleteJob, request, &response).ok());
  EXPECT_EQ(response.freed_bytes(), 400u);
  EXPECT_THAT(order_, ElementsAre("before delete " + std::to_string(node_.run.value)));
  EXPECT_THAT(node_.store.deleted, ElementsAre(node_.run));
  EXPECT_FALSE(node_.jobs.ByRun(node_.run).ok());
}

TEST_F(ControlTest, WithoutAnUploadItSaysHowToGetOne) {
  v1::UploadState state;
  const grpc::Status status = Call(*control_, &C::Upload, {}, &state);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_THAT(status.error_message(), HasSubstr("[upload] url"));
  ASSERT_TRUE(Call(*control_, &C::GetUpload, {}, &state).ok());
  EXPECT_EQ(state.state(), "off");
  EXPECT_THAT(state.reason(), HasSubstr("[upload] url"));
}

TEST_F(ControlTest, DoctorShowsCollectorsAndChecks) {
  v1::Doctor doctor;
  ASSERT_TRUE(Call(*control_, &C::GetDoctor, {}, &doctor).ok());
  EXPECT_EQ(doctor.collectors(0).next_step(), "use a kernel with BTF");
  EXPECT_EQ(doctor.checks(0).name(), "store");
  EXPECT_TRUE(doctor.checks(0).ok());
}

TEST_F(ControlTest, TheControlSocketIsOursAlone) {
  struct stat status{};
  ASSERT_EQ(stat(bound_.control_socket.c_str(), &status), 0);
  EXPECT_TRUE(S_ISSOCK(status.st_mode));
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  Connect("unix:" + bound_.control_socket);
  v1::Job job;
  EXPECT_TRUE(Call(*query_, &Q::GetJob, {}, &job).ok());
  server_.Stop();
  EXPECT_NE(stat(bound_.control_socket.c_str(), &status), 0) << "a stopped server leaves no socket";
}

TEST_F(ControlTest, ATakenPortGivesWayToTheNextFreeOne) {
  RpcServer second(Parts());
  const auto bound = second.Start({bound_.address, ""});
  ASSERT_TRUE(bound.ok()) << bound.status();
  EXPECT_GT(bound->port, bound_.port);
  EXPECT_LE(bound->port, bound_.port + 20);
}

TEST_F(ControlTest, AnAddressOthersCanReachIsRefused) {
  RpcServer second(Parts());
  for (const char* address : {"0.0.0.0:0", "10.1.2.3:7461", "[::]:0"}) {
    const auto bound = second.Start({address, ""});
    ASSERT_EQ(bound.status().code(), absl::StatusCode::kFailedPrecondition) << address;
    EXPECT_THAT(std::string(bound.status().message()), HasSubstr("ssh -L"));
  }
  EXPECT_EQ(second.Start({"7461", ""}).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace stepscope
