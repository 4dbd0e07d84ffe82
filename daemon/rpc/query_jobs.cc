// SPDX-License-Identifier: Apache-2.0
// GetNode, ListJobs, GetJob: what is there.
#include <unistd.h>

#include <algorithm>

#include "base/status.h"
#include "base/valid_utf8.h"
#include "daemon/live/own_cost.h"
#include "daemon/rpc/collector_proto.h"
#include "daemon/rpc/job_proto.h"
#include "daemon/rpc/query_handlers.h"

namespace stepscope {
namespace {

constexpr uint32_t kDefaultJobs = 100;
constexpr uint32_t kMostJobs = 10'000;

void FillFacts(const NodeFacts& facts, v1::Node* node) {
  node->set_hostname(ValidUtf8(facts.hostname));
  node->set_boot_id(facts.boot_id);
  node->set_version(facts.version);
  node->set_kernel(ValidUtf8(facts.kernel));
  node->set_cpus(facts.cpus);
  node->set_data_dir(ValidUtf8(facts.data_dir));
  node->set_http_address(facts.http_address);
  node->set_agent_socket(ValidUtf8(facts.agent_socket));
  node->set_mode(facts.mode);
  for (const std::string& stage : facts.pipeline) node->add_pipeline(stage);
}

}  // namespace

absl::Status QueryHandlers::GetNode(Call&, const v1::GetNodeRequest&, v1::Node* node) const {
  FillFacts(parts_.node(), node);
  node->set_grpc_address(grpc_address_);
  node->set_pid(getpid());
  node->set_uptime_ns(parts_.clock->Node() - started_);
  node->set_now_node_ns(parts_.clock->Node().ns);
  node->set_now_wall_ns(parts_.clock->Wall().ns);
  STEPSCOPE_ASSIGN_OR_RETURN(const uint64_t store_bytes, parts_.store->DiskBytes());
  node->set_store_bytes(store_bytes);
  const OwnCost cost = ReadOwnCost();
  node->set_rss_bytes(cost.rss_bytes);
  node->set_cpu_ns(cost.cpu_ns);
  for (const CollectorState& state : parts_.collectors()) FillCollector(state, node->add_collectors());
  const auto jobs = parts_.jobs->List();
  node->set_running_jobs(
      static_cast<uint32_t>(std::count_if(jobs.begin(), jobs.end(), [](const auto& j) { return !IsOver(j); })));
  if (parts_.sessions) node->set_sessions(parts_.sessions());
  return absl::OkStatus();
}

absl::Status QueryHandlers::ListJobs(Call& call, const v1::ListJobsRequest& request, v1::ListJobsResponse* response) const {
  STEPSCOPE_ASSIGN_OR_RETURN(const Caller caller, access_->Identify(call.peer));
  const uint32_t limit = request.limit() == 0 ? kDefaultJobs : std::min(request.limit(), kMostJobs);
  size_t bytes = 0;
  for (const JobSnapshot& job : access_->List(caller)) {
    v1::Job message;
    FillJob(job, *parts_.jobs, *parts_.totals, *parts_.clock, &message);
    bytes += message.ByteSizeLong();
    response->set_cut(response->jobs_size() >= static_cast<int>(limit) || bytes > kMaxAnswerBytes);
    if (response->cut()) break;
    *response->add_jobs() = std::move(message);
  }
  return absl::OkStatus();
}

absl::Status QueryHandlers::GetJob(Call& call, const v1::GetJobRequest& request, v1::Job* response) const {
  STEPSCOPE_ASSIGN_OR_RETURN(const JobSnapshot job, access_->JobOf(call.peer, request.job()));
  FillJob(job, *parts_.jobs, *parts_.totals, *parts_.clock, response);
  return absl::OkStatus();
}

}  // namespace stepscope
