// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/query_service.h"

#include "daemon/rpc/run_on_pool.h"
#include "daemon/rpc/watch.h"

namespace stepscope {
namespace {

class ExportNotBuilt final : public grpc::ServerWriteReactor<v1::ExportChunk> {
 public:
  ExportNotBuilt() { Finish(NotBuilt("Export")); }

 private:
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerUnaryReactor* QueryService::GetNode(Context* context, const v1::GetNodeRequest* request, v1::Node* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &QueryHandlers::GetNode);
}
grpc::ServerUnaryReactor* QueryService::ListJobs(Context* context, const v1::ListJobsRequest* request,
                                                 v1::ListJobsResponse* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &QueryHandlers::ListJobs);
}
grpc::ServerUnaryReactor* QueryService::GetJob(Context* context, const v1::GetJobRequest* request, v1::Job* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &QueryHandlers::GetJob);
}
grpc::ServerUnaryReactor* QueryService::GetSummary(Context* context, const v1::GetSummaryRequest* request,
                                                   v1::Summary* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &QueryHandlers::GetSummary);
}
grpc::ServerUnaryReactor* QueryService::ListSteps(Context* context, const v1::ListStepsRequest* request,
                                                  v1::ListStepsResponse* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &QueryHandlers::ListSteps);
}
grpc::ServerUnaryReactor* QueryService::GetSeries(Context* context, const v1::GetSeriesRequest* request,
                                                  v1::GetSeriesResponse* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &QueryHandlers::GetSeries);
}
grpc::ServerUnaryReactor* QueryService::ListTracks(Context* context, const v1::ListTracksRequest* request,
                                                   v1::ListTracksResponse* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &QueryHandlers::ListTracks);
}
grpc::ServerUnaryReactor* QueryService::GetSlices(Context* context, const v1::GetSlicesRequest* request,
                                                  v1::GetSlicesResponse* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &QueryHandlers::GetSlices);
}
grpc::ServerWriteReactor<v1::Utilization>* QueryService::WatchUtilization(Context* context,
                                                                          const v1::WatchUtilizationRequest* request) {
  return WatchStream::Start(parts_, access_, pool_, context->peer(), *request);
}

grpc::ServerUnaryReactor* QueryService::ListFindings(Context* context, const v1::ListFindingsRequest*,
                                                     v1::ListFindingsResponse*) {
  return FinishNow(context, NotBuilt("ListFindings"));
}
grpc::ServerUnaryReactor* QueryService::Search(Context* context, const v1::SearchRequest*, v1::SearchResponse*) {
  return FinishNow(context, NotBuilt("Search"));
}
grpc::ServerUnaryReactor* QueryService::Aggregate(Context* context, const v1::AggregateRequest*, v1::AggregateResponse*) {
  return FinishNow(context, NotBuilt("Aggregate"));
}
grpc::ServerWriteReactor<v1::ExportChunk>* QueryService::Export(Context*, const v1::ExportRequest*) { return new ExportNotBuilt; }

}  // namespace stepscope
