// SPDX-License-Identifier: Apache-2.0
// ControlService on the wire: every method goes to a handler on the control pool, or says that it is not built.
#pragma once

#include "daemon/rpc/control_handlers.h"
#include "daemon/rpc/query_pool.h"
#include "stepscope/v1/control.grpc.pb.h"

namespace stepscope {

class ControlService final : public v1::ControlService::CallbackService {
 public:
  ControlService(const RpcParts& parts, const Access* access, QueryPool* pool) : pool_(pool), handlers_(parts, access) {}

  using Context = grpc::CallbackServerContext;
  using Reactor = grpc::ServerUnaryReactor;
  Reactor* StartJob(Context* context, const v1::StartJobRequest* request, v1::Job* response) override;
  Reactor* EndJob(Context* context, const v1::EndJobRequest* request, v1::Job* response) override;
  Reactor* DeleteJob(Context* context, const v1::DeleteJobRequest* request, v1::DeleteJobResponse* response) override;
  Reactor* Upload(Context* context, const v1::UploadRequest* request, v1::UploadState* response) override;
  Reactor* GetUpload(Context* context, const v1::GetUploadRequest* request, v1::UploadState* response) override;
  Reactor* GetDoctor(Context* context, const v1::GetDoctorRequest* request, v1::Doctor* response) override;

  Reactor* Attach(Context* context, const v1::AttachRequest*, v1::AttachResponse*) override;
  Reactor* Detach(Context* context, const v1::DetachRequest*, v1::DetachResponse*) override;
  Reactor* StartWindow(Context* context, const v1::StartWindowRequest*, v1::StartWindowResponse*) override;
  Reactor* StopWindow(Context* context, const v1::StopWindowRequest*, v1::StopWindowResponse*) override;
  grpc::ServerReadReactor<v1::ImportRequest>* Import(Context* context, v1::ImportResponse*) override;

 private:
  QueryPool* pool_;
  ControlHandlers handlers_;
};

}  // namespace stepscope
