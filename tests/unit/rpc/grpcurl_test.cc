// SPDX-License-Identifier: Apache-2.0
// What people type: grpcurl against the running server, by reflection alone. Skipped where grpcurl is not installed; looks in
// $STEPSCOPE_GOBIN, then in $PATH.
#include <cstdio>
#include <cstdlib>

#include "grpc/health/v1/health.grpc.pb.h"
#include "tests/unit/rpc/rpc_fixture.h"

namespace stepscope {
namespace {

using testing::HasSubstr;

class GrpcurlTest : public RpcFixture {
 protected:
  struct Result {
    int code;
    std::string output;
  };
  static Result Shell(const std::string& command) {
    const char* folder = std::getenv("STEPSCOPE_GOBIN");
    const std::string path = folder == nullptr ? "" : "PATH=" + std::string(folder) + ":$PATH; ";
    FILE* pipe = popen((path + command + " 2>&1").c_str(), "r");
    std::string output;
    char buffer[4096];
    while (const size_t n = fread(buffer, 1, sizeof(buffer), pipe)) output.append(buffer, n);
    return {pclose(pipe), output};
  }
  Result Grpcurl(const std::string& flags, const std::string& method) {
    return Shell("grpcurl -plaintext -max-time 20 " + flags + " " + bound_.address + " " + method);
  }
  void SetUp() override {
    if (Shell("command -v grpcurl").code != 0) GTEST_SKIP() << "no grpcurl";
  }
};

TEST_F(GrpcurlTest, ListsAndDescribesTheServices) {
  const Result list = Grpcurl("", "list");
  EXPECT_EQ(list.code, 0) << list.output;
  for (const char* service : {"stepscope.v1.QueryService", "stepscope.v1.ControlService", "grpc.health.v1.Health"}) {
    EXPECT_THAT(list.output, HasSubstr(service));
  }
  EXPECT_THAT(Grpcurl("", "describe stepscope.v1.QueryService").output, HasSubstr("rpc WatchUtilization"));
}

TEST_F(GrpcurlTest, AsksForHealthByName) {
  const Result health = Grpcurl("-d '{\"service\":\"stepscope.v1.QueryService\"}'", "grpc.health.v1.Health/Check");
  EXPECT_EQ(health.code, 0) << health.output;
  EXPECT_THAT(health.output, HasSubstr("SERVING"));
  EXPECT_THAT(Grpcurl("-d '{\"service\":\"no.such\"}'", "grpc.health.v1.Health/Check").output, HasSubstr("NotFound"));
}

TEST_F(GrpcurlTest, WatchesOneUpdate) {
  const Result watch = Grpcurl("-d '{\"max_updates\":1}'", "stepscope.v1.QueryService/WatchUtilization");
  EXPECT_EQ(watch.code, 0) << watch.output;
  EXPECT_THAT(watch.output, HasSubstr("\"sleeping\""));
}

/// The server as it runs in the daemon: the caller's uid comes from /proc/net/tcp.
TEST_F(GrpcurlTest, IsRecognisedAsItsUser) {
  RpcParts parts = Parts();
  parts.identify = nullptr;
  RpcServer server(std::move(parts));
  const auto bound = server.Start({"127.0.0.1:0", ""});
  ASSERT_TRUE(bound.ok()) << bound.status();
  const std::string call = "-plaintext -max-time 20 " + bound->address + " stepscope.v1.QueryService/GetJob";
  const Result mine = Shell("grpcurl " + call);
  EXPECT_EQ(mine.code, 0) << mine.output;
  EXPECT_THAT(mine.output, HasSubstr("\"name\": \"train\""));
  if (geteuid() != 0 || Shell("setpriv --reuid 4242 --clear-groups grpcurl --version").code != 0) return;
  const Result other = Shell("setpriv --reuid 4242 --clear-groups grpcurl " + call);
  EXPECT_THAT(other.output, HasSubstr("NotFound"));
  EXPECT_THAT(other.output, HasSubstr("uid 4242"));
}

TEST_F(RpcFixture, HealthWatchSaysTheStateNow) {
  const auto health = grpc::health::v1::Health::NewStub(grpc::CreateChannel(bound_.address, grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  const auto stream = health->Watch(&context, {});
  grpc::health::v1::HealthCheckResponse response;
  ASSERT_TRUE(stream->Read(&response));
  EXPECT_EQ(response.status(), grpc::health::v1::HealthCheckResponse::SERVING);
  context.TryCancel();
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

}  // namespace
}  // namespace stepscope
