// SPDX-License-Identifier: Apache-2.0
// Any bytes as a request of any method: refused, or answered within the budgets of a call (time, size) on a node with rows of
// every table. Input: one byte for the method, then the message.
#include <chrono>
#include <cstdint>
#include <memory>

#include "daemon/rpc/control_handlers.h"
#include "daemon/rpc/query_handlers.h"
#include "tests/fuzz/pieces.h"
#include "tests/unit/rpc/fake_node.h"

namespace {

using namespace stepscope;
using fuzz::Check;

void AddRows(FakeNode& node) {
  const int64_t second = kNsPerSecond;
  for (int64_t i = 0; i < 40; ++i) {
    const int64_t start = 900 * second + i * second;
    node.Span(FakeNode::kMain, SpanDomain::kStep, FakeNode::kStepName, start, second / 2, i);
    node.Span(FakeNode::kMain, SpanDomain::kLoader, FakeNode::kLoaderName, start, second / 10);
    node.Turn(i % 2 == 0 ? FakeNode::kMain : FakeNode::kWorkerThread, 1000 * i, start, second / 4, i, i % 8);
  }
  for (const TableSpec& table : AllTables()) {
    Batch& batch = node.Rows(table.id);
    batch.lane.push_back(FakeNode::kMetric);
    for (auto& column : batch.columns) column.push_back(column.data() == batch.columns[0].data() ? 910 * second : 1);
  }
}

/// A node anew for each input: requests start and end jobs.
struct Server {
  Server() : access(&node.jobs, 0, "/proc", [](const std::string&) { return 0u; }) {
    AddRows(node);
    parts.store = &node.store;
    parts.reader = &node.reader;
    parts.dictionary = &node.dictionary;
    parts.totals = &node.totals;
    parts.jobs = &node.jobs;
    parts.clock = &node.clock;
    parts.node = [] { return NodeFacts{}; };
    parts.collectors = [] { return std::vector<CollectorState>{{"sched", "none", "off", "", "", {{"drops", "3"}}}}; };
    query = std::make_unique<QueryHandlers>(parts, &access);
    control = std::make_unique<ControlHandlers>(parts, &access);
  }
  FakeNode node;
  Access access;
  RpcParts parts;
  std::unique_ptr<QueryHandlers> query;
  std::unique_ptr<ControlHandlers> control;
};

template <typename Handlers, typename Request, typename Response>
void Ask(const Handlers& handlers, absl::Status (Handlers::*method)(Call&, const Request&, Response*) const, const uint8_t* data,
         size_t size) {
  Request request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return;
  const auto begin = std::chrono::steady_clock::now();
  Call call{"ipv4:127.0.0.1:1", QueryBudget(std::chrono::system_clock::now() + std::chrono::seconds(20), [] { return false; })};
  Response response;
  const absl::Status status = (handlers.*method)(call, request, &response);
  Check(status.ok() || !status.message().empty());
  Check(response.ByteSizeLong() <= 4 << 20);
  std::string wire;
  Check(response.SerializeToString(&wire));  // names in it are UTF-8
  Check(std::chrono::steady_clock::now() - begin < std::chrono::seconds(15));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const Server server;
  const QueryHandlers& q = *server.query;
  const ControlHandlers& c = *server.control;
  const auto ask = [&](const auto& handlers, auto method) { Ask(handlers, method, data + 1, size - 1); };
  switch (data[0] % 14) {
    case 0:
      ask(q, &QueryHandlers::GetNode);
      break;
    case 1:
      ask(q, &QueryHandlers::ListJobs);
      break;
    case 2:
      ask(q, &QueryHandlers::GetJob);
      break;
    case 3:
      ask(q, &QueryHandlers::GetSummary);
      break;
    case 4:
      ask(q, &QueryHandlers::ListSteps);
      break;
    case 5:
      ask(q, &QueryHandlers::GetSeries);
      break;
    case 6:
      ask(q, &QueryHandlers::ListTracks);
      break;
    case 7:
      ask(q, &QueryHandlers::GetSlices);
      break;
    case 8:
      ask(c, &ControlHandlers::StartJob);
      break;
    case 9:
      ask(c, &ControlHandlers::EndJob);
      break;
    case 10:
      ask(c, &ControlHandlers::DeleteJob);
      break;
    case 11:
      ask(c, &ControlHandlers::Upload);
      break;
    case 12:
      ask(c, &ControlHandlers::GetUpload);
      break;
    default:
      ask(c, &ControlHandlers::GetDoctor);
      break;
  }
  return 0;
}
