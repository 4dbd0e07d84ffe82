// SPDX-License-Identifier: Apache-2.0
// The questions, as plain functions: one handler each, run on the query pool. QueryService only brings the bytes here.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "daemon/rpc/access.h"
#include "daemon/rpc/call.h"
#include "daemon/rpc/parts.h"
#include "stepscope/v1/query.pb.h"

namespace stepscope {

class QueryHandlers {
 public:
  QueryHandlers(const RpcParts& parts, const Access* access) : parts_(parts), access_(access), started_(parts.clock->Node()) {}
  void SetGrpcAddress(const std::string& address) { grpc_address_ = address; }

  // query_jobs.cc
  absl::Status GetNode(Call& call, const v1::GetNodeRequest& request, v1::Node* node) const;
  absl::Status ListJobs(Call& call, const v1::ListJobsRequest& request, v1::ListJobsResponse* response) const;
  absl::Status GetJob(Call& call, const v1::GetJobRequest& request, v1::Job* response) const;
  // summary.cc
  absl::Status GetSummary(Call& call, const v1::GetSummaryRequest& request, v1::Summary* summary) const;
  // query_steps.cc
  absl::Status ListSteps(Call& call, const v1::ListStepsRequest& request, v1::ListStepsResponse* response) const;
  // query_series.cc
  absl::Status GetSeries(Call& call, const v1::GetSeriesRequest& request, v1::GetSeriesResponse* response) const;
  // query_rows.cc
  absl::Status ListTracks(Call& call, const v1::ListTracksRequest& request, v1::ListTracksResponse* response) const;
  absl::Status GetSlices(Call& call, const v1::GetSlicesRequest& request, v1::GetSlicesResponse* response) const;

 private:
  const RpcParts& parts_;
  const Access* access_;
  const NodeTime started_;
  std::string grpc_address_;
};

}  // namespace stepscope
