// SPDX-License-Identifier: Apache-2.0
// QueryService on the wire: every method goes to a handler on the query pool (query_handlers.h), or says that it is not built.
#pragma once

#include "daemon/rpc/query_handlers.h"
#include "daemon/rpc/query_pool.h"
#include "stepscope/v1/query.grpc.pb.h"

namespace stepscope {

class QueryService final : public v1::QueryService::CallbackService {
 public:
  QueryService(const RpcParts& parts, const Access* access, QueryPool* pool)
      : parts_(parts), access_(access), pool_(pool), handlers_(parts, access) {}
  QueryHandlers& handlers() { return handlers_; }

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;
  Reactor* GetNode(Context* context, const v1::GetNodeRequest* request, v1::Node* response) override;
  Reactor* ListJobs(Context* context, const v1::ListJobsRequest* request, v1::ListJobsResponse* response) override;
  Reactor* GetJob(Context* context, const v1::GetJobRequest* request, v1::Job* response) override;
  Reactor* GetSummary(Context* context, const v1::GetSummaryRequest* request, v1::Summary* response) override;
  Reactor* ListSteps(Context* context, const v1::ListStepsRequest* request, v1::ListStepsResponse* response) override;
  Reactor* GetSeries(Context* context, const v1::GetSeriesRequest* request, v1::GetSeriesResponse* response) override;
  Reactor* ListTracks(Context* context, const v1::ListTracksRequest* request, v1::ListTracksResponse* response) override;
  Reactor* GetSlices(Context* context, const v1::GetSlicesRequest* request, v1::GetSlicesResponse* response) override;
  grpc::ServerWriteReactor<v1::Utilization>* WatchUtilization(Context* context,
                                                              const v1::WatchUtilizationRequest* request) override;

  Reactor* ListFindings(Context* context, const v1::ListFindingsRequest*, v1::ListFindingsResponse*) override;
  Reactor* Search(Context* context, const v1::SearchRequest*, v1::SearchResponse*) override;
  Reactor* Aggregate(Context* context, const v1::AggregateRequest*, v1::AggregateResponse*) override;
  grpc::ServerWriteReactor<v1::ExportChunk>* Export(Context* context, const v1::ExportRequest*) override;

 private:
  const RpcParts& parts_;
  const Access* access_;
  QueryPool* pool_;
  QueryHandlers handlers_;
};

}  // namespace stepscope
