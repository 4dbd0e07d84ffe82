// SPDX-License-Identifier: Apache-2.0
#include "daemon/web/web_server.h"

#include <civetweb.h>
#include <fmt/format.h>
#include <prometheus/text_serializer.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "base/status.h"
#include "daemon/live/listen_address.h"

namespace stepscope {
namespace {

constexpr char kPlainText[] = "text/plain; charset=utf-8";
constexpr char kMetricsText[] = "text/plain; version=0.0.4; charset=utf-8";

struct Answer {
  int code = 200;
  std::string body;
  const char* content_type = kPlainText;
  std::string extra_header = {};  ///< complete lines
};

const char* Reason(int code) {
  switch (code) {
    case 200:
      return "OK";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    default:
      return "Service Unavailable";
  }
}

/// "127.0.0.1:7462", "localhost", "[::1]:80": the name of this machine as seen from itself, with any port (ssh -L changes it).
bool IsLoopbackName(std::string_view host) {
  const size_t bracket = host.find(']');
  const size_t colon = host.find(':', bracket == std::string_view::npos ? 0 : bracket);
  const std::string_view port = colon == std::string_view::npos ? std::string_view() : host.substr(colon + 1);
  const std::string_view name = host.substr(0, colon);
  const bool port_ok = std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
  return port_ok && (name == "localhost" || name == "127.0.0.1" || name == "[::1]");
}

void Send(mg_connection* connection, const Answer& answer, bool with_body) {
  const std::string head = fmt::format(
      "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\n"
      "X-Content-Type-Options: nosniff\r\nContent-Security-Policy: default-src 'none'; frame-ancestors 'none'\r\n{}\r\n",
      answer.code, Reason(answer.code), answer.content_type, answer.body.size(), answer.extra_header);
  mg_write(connection, head.data(), head.size());
  if (with_body) mg_write(connection, answer.body.data(), answer.body.size());
}

int LogLine(const mg_connection*, const char* message) {
  spdlog::debug("http: {}", message);
  return 1;
}

}  // namespace

struct WebServer::Impl {
  explicit Impl(WebParts given) : parts(std::move(given)), metrics(parts.metrics) {}

  Answer Route(const mg_request_info& request, const char* host) const;
  Answer Root() const;
  Answer Ready() const;
  static int OnRequest(mg_connection* connection);
  absl::StatusOr<std::string> Listen(ListenAddress address);

  const WebParts parts;
  const DaemonMetrics metrics;
  mg_context* context = nullptr;
  ListenAddress bound;
};

Answer WebServer::Impl::Root() const {
  return {200, fmt::format("stepscope {}\n\n"
                           "The user interface comes with a later release. Until then:\n\n"
                           "  stepscope                 state and the next command\n"
                           "  stepscope top             what each rank does right now\n"
                           "  grpcurl -plaintext -d '{{\"max_updates\":1}}' {} stepscope.v1.QueryService/WatchUtilization\n\n"
                           "/healthz /readyz /metrics\n",
                           parts.metrics.version, parts.grpc_address)};
}

Answer WebServer::Impl::Ready() const {
  const absl::Status ready = parts.ready ? parts.ready() : absl::OkStatus();
  if (ready.ok()) return {200, "ready\n"};
  return {503, std::string(ready.message()) + "\n"};
}

Answer WebServer::Impl::Route(const mg_request_info& request, const char* host) const {
  if (host == nullptr || !IsLoopbackName(host)) {
    return {403, "the Host header must be localhost, 127.0.0.1 or [::1]; from another machine use ssh -L\n"};
  }
  const std::string_view method = request.request_method;
  if (method != "GET" && method != "HEAD")
    return {405, "only GET and HEAD are served here\n", kPlainText, "Allow: GET, HEAD\r\n"};
  const std::string_view path = request.local_uri != nullptr ? request.local_uri : "";
  if (path == "/") return Root();
  if (path == "/healthz") return {200, "ok\n"};
  if (path == "/readyz") return Ready();
  if (path == "/metrics") return {200, prometheus::TextSerializer().Serialize(metrics.Collect()), kMetricsText};
  return {404, "nothing here; there is /, /healthz, /readyz and /metrics\n"};
}

int WebServer::Impl::OnRequest(mg_connection* connection) {
  const mg_request_info* request = mg_get_request_info(connection);
  const auto* self = static_cast<const Impl*>(request->user_data);
  const Answer answer = self->Route(*request, mg_get_header(connection, "Host"));
  Send(connection, answer, std::string_view(request->request_method) != "HEAD");
  return answer.code;
}

absl::StatusOr<std::string> WebServer::Impl::Listen(ListenAddress address) {
  mg_callbacks callbacks{};
  callbacks.begin_request = &OnRequest;
  callbacks.log_message = &LogLine;
  const uint16_t wanted = address.port;
  for (int attempt = 0; attempt < kPortsTried && wanted + attempt <= UINT16_MAX; ++attempt) {
    address.port = static_cast<uint16_t>(wanted == 0 ? 0 : wanted + attempt);
    if (!IsFree(address)) continue;
    const std::string listen = address.Text();
    const char* options[] = {"listening_ports",
                             listen.c_str(),
                             "num_threads",
                             "4",
                             "connection_queue",
                             "16",
                             "request_timeout_ms",
                             "10000",
                             "max_request_size",
                             "16384",
                             "enable_keep_alive",
                             "no",
                             "enable_directory_listing",
                             "no",
                             nullptr};
    context = mg_start(&callbacks, this, options);
    if (context == nullptr) continue;
    mg_server_port ports[2]{};
    if (mg_get_server_ports(context, 2, ports) >= 1) address.port = static_cast<uint16_t>(ports[0].port);
    bound = address;
    return address.Text();
  }
  return absl::UnavailableError(
      fmt::format("HTTP could listen on none of {}:{} … {}; see who holds them with `ss -ltnp`, or set "
                  "server.http_address",
                  address.host, wanted, wanted + kPortsTried - 1));
}

WebServer::WebServer(WebParts parts) : impl_(std::make_unique<Impl>(std::move(parts))) { mg_init_library(0); }
WebServer::~WebServer() {
  Stop();
  mg_exit_library();
}

absl::StatusOr<std::string> WebServer::Start(const Options& options) {
  STEPSCOPE_ASSIGN_OR_RETURN(const ListenAddress address, ParseLoopback(options.address, "HTTP address"));
  return impl_->Listen(address);
}

void WebServer::Stop() {
  if (impl_->context == nullptr) return;
  std::atomic<bool> stopped = false;
  std::thread stopper([&] {
    mg_stop(std::exchange(impl_->context, nullptr));
    stopped = true;
  });
  // The server looks whether it shall stop after each connection, and else only every two seconds.
  while (!stopped) {
    Knock(impl_->bound);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  stopper.join();
}

}  // namespace stepscope
