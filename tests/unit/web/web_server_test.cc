// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/web_server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>

#include "base/unique_fd.h"
#include "tests/unit/rpc/fake_node.h"

namespace stepscope {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class WebServerTest : public testing::Test {
 protected:
  WebServerTest() : server_(Parts()) {
    const auto address = server_.Start({"127.0.0.1:0"});
    EXPECT_TRUE(address.ok()) << address.status();
    address_ = *address;
  }
  WebParts Parts() {
    WebParts parts;
    parts.metrics.jobs = &node_.jobs;
    parts.metrics.totals = &node_.totals;
    parts.metrics.store = &node_.store;
    parts.metrics.collectors = [] {
      return std::vector<CollectorState>{{"sched", "full", "on", "", "", {{"records", "12"}, {"ring", "8 MiB"}}}};
    };
    parts.metrics.sessions = [] { return 3u; };
    parts.metrics.version = "0.1.0";
    parts.ready = [this] { return ready_; };
    parts.grpc_address = "127.0.0.1:7461";
    return parts;
  }
  /// Sends bytes, returns everything until the server closes.
  std::string Raw(const std::string& request) const {
    const unique_fd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::stoi(address_.substr(address_.rfind(':') + 1))));
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    if (connect(fd.get(), reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) return "cannot connect";
    if (send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return "cannot send";
    std::string answer;
    char buffer[4096];
    while (true) {
      const ssize_t n = recv(fd.get(), buffer, sizeof(buffer), 0);
      if (n <= 0) return answer;
      answer.append(buffer, static_cast<size_t>(n));
    }
  }
  std::string Get(const std::string& path, const std::string& host = "localhost", const std::string& method = "GET") const {
    return Raw(method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n\r\n");
  }

  FakeNode node_;
  absl::Status ready_;
  WebServer server_;
  std::string address_;
};

TEST_F(WebServerTest, HealthIsOkWhileItRuns) {
  EXPECT_THAT(Get("/healthz"), StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(Get("/healthz"), HasSubstr("\r\n\r\nok\n"));
}

TEST_F(WebServerTest, ReadinessSaysWhyNot) {
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 200"));
  ready_ = absl::UnavailableError("the disk of /data is full; free some");
  EXPECT_THAT(Get("/readyz"), StartsWith("HTTP/1.1 503"));
  EXPECT_THAT(Get("/readyz"), HasSubstr("the disk of /data is full"));
}

TEST_F(WebServerTest, MetricsAreReadWhenScrapedAndNameNoJob) {
  node_.totals.totals.tables[TableId::kSpan] = {41, 100};
  node_.totals.totals.loss[{2, 8, 4}] = {17, -1};
  const std::string metrics = Get("/metrics");
  EXPECT_THAT(metrics, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(metrics, HasSubstr("stepscope_rows{table=\"span\"} 41"));
  EXPECT_THAT(metrics,
              HasSubstr("stepscope_lost_records{stage=\"kernel\",reason=\"kernel ring full\",table=\"sched_slice\"} 17"));
  EXPECT_THAT(metrics, HasSubstr("stepscope_runs{state=\"running\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("stepscope_agent_sessions 3"));
  EXPECT_THAT(metrics, HasSubstr("stepscope_store_bytes 1000"));
  EXPECT_THAT(metrics, HasSubstr("stepscope_upload_runs{state=\"off\"} 1"));
  EXPECT_THAT(metrics, HasSubstr("stepscope_collector_number{collector=\"sched\",number=\"records\"} 12"));
  EXPECT_THAT(metrics, Not(HasSubstr("8 MiB")));
  EXPECT_THAT(metrics, HasSubstr("process_resident_memory_bytes"));
  EXPECT_THAT(metrics, Not(HasSubstr("train")));
}

TEST_F(WebServerTest, AForeignHostNameIsRefused) {
  for (const char* host :
       {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example:7462", "[::1].evil.example", "localhost:x", ""}) {
    EXPECT_THAT(Get("/metrics", host), StartsWith("HTTP/1.1 403")) << host;
  }
  for (const char* host : {"localhost", "localhost:9999", "127.0.0.1:7462", "[::1]:7462", "[::1]"}) {
    EXPECT_THAT(Get("/healthz", host), StartsWith("HTTP/1.1 200")) << host;
  }
  EXPECT_THAT(Raw("GET /metrics HTTP/1.0\r\n\r\n"), StartsWith("HTTP/1.1 403"));
}

TEST_F(WebServerTest, OnlyGetAndHead) {
  const std::string head = Get("/healthz", "localhost", "HEAD");
  EXPECT_THAT(head, StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(head, testing::EndsWith("\r\n\r\n"));
  for (const char* method : {"POST", "PUT", "DELETE", "OPTIONS", "PATCH"}) {
    EXPECT_THAT(Get("/metrics", "localhost", method), StartsWith("HTTP/1.1 405")) << method;
  }
}

TEST_F(WebServerTest, NoHeaderInvitesOtherOrigins) {
  EXPECT_THAT(Get("/metrics"), Not(HasSubstr("Access-Control")));
  EXPECT_THAT(Get("/"), HasSubstr("Content-Security-Policy: default-src 'none'"));
}

TEST_F(WebServerTest, TheFirstPageNamesTheNextCommand) {
  EXPECT_THAT(Get("/"), HasSubstr("grpcurl -plaintext -d '{\"max_updates\":1}' 127.0.0.1:7461"));
  EXPECT_THAT(Get("/nothing"), StartsWith("HTTP/1.1 404"));
}

TEST_F(WebServerTest, ARequestThatIsTooLongIsRefused) {
  const std::string answer = Raw("GET /" + std::string(40'000, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(answer, Not(HasSubstr("200 OK")));
}

TEST_F(WebServerTest, StopsAtOnce) {
  const auto began = std::chrono::steady_clock::now();
  server_.Stop();
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(1));
  EXPECT_EQ(Get("/healthz"), "cannot connect");
}

TEST_F(WebServerTest, PortsAndAddressesFollowTheRules) {
  WebServer second(Parts());
  const auto address = second.Start({address_});
  ASSERT_TRUE(address.ok()) << address.status();
  EXPECT_NE(*address, address_);
  WebServer third(Parts());
  EXPECT_EQ(third.Start({"0.0.0.0:0"}).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace stepscope
