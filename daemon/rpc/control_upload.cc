// SPDX-License-Identifier: Apache-2.0
// Upload, GetUpload and GetDoctor.
#include <fmt/format.h>

#include "analysis/loss_text.h"
#include "base/status.h"
#include "base/valid_utf8.h"
#include "daemon/rpc/collector_proto.h"
#include "daemon/rpc/control_handlers.h"

namespace stepscope {
namespace {

constexpr char kNoUpload[] =
    "no upload is configured; set [upload] url in stepscoped.toml (s3://bucket/prefix) and restart the daemon";

void FillUpload(const JobSnapshot& job, const Uploader* uploader, v1::UploadState* state) {
  const UploadStatus status = uploader != nullptr ? uploader->Status(job.run) : UploadStatus{};
  state->set_job(ValidUtf8(job.job));
  state->set_state(status.state);
  state->set_reason(status.state == "off" && status.reason.empty() ? kNoUpload : ValidUtf8(status.reason));
  state->set_next_try_wall_ns(status.next_try_wall_ns);
  state->set_parts_done(status.parts_done);
  state->set_parts_total(status.parts_total);
  state->set_bytes_done(status.bytes_done);
  state->set_url(ValidUtf8(status.url));
  for (const auto& [table, rows] : status.rows) {
    v1::TableCount* count = state->add_tables();
    count->set_table(LossTableText(static_cast<int64_t>(table)));
    count->set_rows(rows);
  }
  if (status.state == "done") {
    state->set_percent(100);
  } else if (status.parts_total > 0) {
    state->set_percent(100.0 * status.parts_done / status.parts_total);
  }
}

void AddCheck(v1::Doctor* doctor, const DoctorCheck& check) {
  v1::Check* message = doctor->add_checks();
  message->set_name(check.name);
  message->set_ok(check.ok);
  message->set_found(ValidUtf8(check.found));
  message->set_next_step(ValidUtf8(check.next_step));
}

}  // namespace

absl::Status ControlHandlers::Upload(Call& call, const v1::UploadRequest& request, v1::UploadState* response) const {
  STEPSCOPE_ASSIGN_OR_RETURN(const JobSnapshot job, access_->JobOf(call.peer, request.job()));
  if (parts_.uploader == nullptr || parts_.uploader->Status(job.run).state == "off") {
    return absl::FailedPreconditionError(kNoUpload);
  }
  for (const RunId run : job.runs) parts_.uploader->Request(run);
  FillUpload(job, parts_.uploader, response);
  return absl::OkStatus();
}

absl::Status ControlHandlers::GetUpload(Call& call, const v1::GetUploadRequest& request, v1::UploadState* response) const {
  STEPSCOPE_ASSIGN_OR_RETURN(const JobSnapshot job, access_->JobOf(call.peer, request.job()));
  FillUpload(job, parts_.uploader, response);
  return absl::OkStatus();
}

absl::Status ControlHandlers::GetDoctor(Call&, const v1::GetDoctorRequest&, v1::Doctor* response) const {
  for (const CollectorState& state : parts_.collectors()) FillCollector(state, response->add_collectors());
  const auto disk_bytes = parts_.store->DiskBytes();
  const std::vector<DoctorCheck> checks =
      parts_.checks ? parts_.checks()
                    : std::vector<DoctorCheck>{{"store", disk_bytes.ok(), std::string(disk_bytes.status().message()), ""}};
  for (const DoctorCheck& check : checks) AddCheck(response, check);
  return absl::OkStatus();
}

}  // namespace stepscope
