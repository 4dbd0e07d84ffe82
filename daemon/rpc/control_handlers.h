// SPDX-License-Identifier: Apache-2.0
// The orders, as plain functions on the control pool. Callers act on jobs and processes of their own uid.
#pragma once

#include "absl/status/status.h"
#include "daemon/rpc/access.h"
#include "daemon/rpc/call.h"
#include "daemon/rpc/parts.h"
#include "stepscope/v1/control.pb.h"

namespace stepscope {

class ControlHandlers {
 public:
  ControlHandlers(const RpcParts& parts, const Access* access) : parts_(parts), access_(access) {}

  absl::Status StartJob(Call& call, const v1::StartJobRequest& request, v1::Job* response) const;
  absl::Status EndJob(Call& call, const v1::EndJobRequest& request, v1::Job* response) const;
  absl::Status DeleteJob(Call& call, const v1::DeleteJobRequest& request, v1::DeleteJobResponse* response) const;
  absl::Status Upload(Call& call, const v1::UploadRequest& request, v1::UploadState* response) const;
  absl::Status GetUpload(Call& call, const v1::GetUploadRequest& request, v1::UploadState* response) const;
  absl::Status GetDoctor(Call& call, const v1::GetDoctorRequest& request, v1::Doctor* response) const;

 private:
  absl::StatusOr<StartJobSpec> SpecOf(const Caller& caller, const v1::StartJobRequest& request) const;

  const RpcParts& parts_;
  const Access* access_;
};

}  // namespace stepscope
