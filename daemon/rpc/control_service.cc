// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/control_service.h"

#include "daemon/rpc/run_on_pool.h"

namespace stepscope {
namespace {

class ImportNotBuilt final : public grpc::ServerReadReactor<v1::ImportRequest> {
 public:
  ImportNotBuilt() { Finish(NotBuilt("Import")); }

 private:
  void OnDone() override { delete this; }
};

}  // namespace

grpc::ServerUnaryReactor* ControlService::StartJob(Context* context, const v1::StartJobRequest* request, v1::Job* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &ControlHandlers::StartJob);
}
grpc::ServerUnaryReactor* ControlService::EndJob(Context* context, const v1::EndJobRequest* request, v1::Job* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &ControlHandlers::EndJob);
}
grpc::ServerUnaryReactor* ControlService::DeleteJob(Context* context, const v1::DeleteJobRequest* request,
                                                    v1::DeleteJobResponse* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &ControlHandlers::DeleteJob);
}
grpc::ServerUnaryReactor* ControlService::Upload(Context* context, const v1::UploadRequest* request, v1::UploadState* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &ControlHandlers::Upload);
}
grpc::ServerUnaryReactor* ControlService::GetUpload(Context* context, const v1::GetUploadRequest* request,
                                                    v1::UploadState* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &ControlHandlers::GetUpload);
}
grpc::ServerUnaryReactor* ControlService::GetDoctor(Context* context, const v1::GetDoctorRequest* request, v1::Doctor* response) {
  return RunOnPool(*pool_, context, request, response, &handlers_, &ControlHandlers::GetDoctor);
}

grpc::ServerUnaryReactor* ControlService::Attach(Context* context, const v1::AttachRequest*, v1::AttachResponse*) {
  return FinishNow(context, NotBuilt("Attach"));
}
grpc::ServerUnaryReactor* ControlService::Detach(Context* context, const v1::DetachRequest*, v1::DetachResponse*) {
  return FinishNow(context, NotBuilt("Detach"));
}
grpc::ServerUnaryReactor* ControlService::StartWindow(Context* context, const v1::StartWindowRequest*, v1::StartWindowResponse*) {
  return FinishNow(context, NotBuilt("StartWindow"));
}
grpc::ServerUnaryReactor* ControlService::StopWindow(Context* context, const v1::StopWindowRequest*, v1::StopWindowResponse*) {
  return FinishNow(context, NotBuilt("StopWindow"));
}
grpc::ServerReadReactor<v1::ImportRequest>* ControlService::Import(Context*, v1::ImportResponse*) { return new ImportNotBuilt; }

}  // namespace stepscope
