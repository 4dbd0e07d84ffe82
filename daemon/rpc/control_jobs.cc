// SPDX-License-Identifier: Apache-2.0
// StartJob, EndJob, DeleteJob: the life of a job by order.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/status.h"
#include "daemon/rpc/control_handlers.h"
#include "daemon/rpc/job_proto.h"

namespace stepscope {
namespace {

constexpr size_t kMostText = 4096;
constexpr int kMostFacts = 1000;
constexpr std::array<std::string_view, 7> kKinds = {"run", "slurm", "k8s", "torchx", "sagemaker", "torchelastic", "api"};

absl::Status CheckRequest(const v1::StartJobRequest& request) {
  if (!request.kind().empty() && std::find(kKinds.begin(), kKinds.end(), request.kind()) == kKinds.end()) {
    return absl::InvalidArgumentError(fmt::format("kind \"{}\" is unknown; use one of {}, or leave it empty for run",
                                                  request.kind().substr(0, 64), fmt::join(kKinds, ", ")));
  }
  if (request.name().size() > kMostText || request.id().size() > kMostText) {
    return absl::InvalidArgumentError("name or id is longer than 4,096 bytes; shorten it");
  }
  if (request.facts_size() > kMostFacts) {
    return absl::InvalidArgumentError(fmt::format("{} facts are more than {}; leave some out", request.facts_size(), kMostFacts));
  }
  if (request.pid() < 0) return absl::InvalidArgumentError(fmt::format("pid {} is no process", request.pid()));
  if (request.pid() == 0 && request.id().empty() && request.name().empty()) {
    return absl::InvalidArgumentError("a job needs a name, an id or a pid; give at least one");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StartJobSpec> ControlHandlers::SpecOf(const Caller& caller, const v1::StartJobRequest& request) const {
  StartJobSpec spec;
  spec.name = request.name();
  spec.kind = request.kind();
  spec.id = request.id().empty() ? request.name() : request.id();
  spec.uid = caller.uid;
  spec.attempt = request.attempt();
  spec.command = request.command().substr(0, kMostText);
  for (const auto& [key, value] : request.facts()) spec.facts[key.substr(0, kMostText)] = value.substr(0, kMostText);
  if (request.pid() == 0) return spec;

  const Pid pid{request.pid()};
  STEPSCOPE_ASSIGN_OR_RETURN(const int64_t start_ticks, ReadStartTicks(pid, parts_.proc));
  STEPSCOPE_ASSIGN_OR_RETURN(spec.uid, access_->UidOfProcess(pid));
  STEPSCOPE_ASSIGN_OR_RETURN(const int64_t still, ReadStartTicks(pid, parts_.proc));
  if (still != start_ticks) return absl::NotFoundError(fmt::format("process {} ended just now; start the job again", pid.value));
  if (!caller.Owns(spec.uid)) {
    return absl::PermissionDeniedError(fmt::format("process {} belongs to uid {}, you are uid {}; call as that user or as root",
                                                   pid.value, spec.uid, caller.uid));
  }
  spec.root = ProcessKey{pid, start_ticks};
  return spec;
}

absl::Status ControlHandlers::StartJob(Call& call, const v1::StartJobRequest& request, v1::Job* response) const {
  STEPSCOPE_ASSIGN_OR_RETURN(const Caller caller, access_->Identify(call.peer));
  STEPSCOPE_RETURN_IF_ERROR(CheckRequest(request));
  STEPSCOPE_ASSIGN_OR_RETURN(const StartJobSpec spec, SpecOf(caller, request));
  STEPSCOPE_ASSIGN_OR_RETURN(const JobSnapshot job, parts_.jobs->StartJob(spec));
  FillJob(job, *parts_.jobs, *parts_.totals, *parts_.clock, response);
  return absl::OkStatus();
}

absl::Status ControlHandlers::EndJob(Call& call, const v1::EndJobRequest& request, v1::Job* response) const {
  STEPSCOPE_ASSIGN_OR_RETURN(JobSnapshot job, access_->JobOf(call.peer, request.job()));
  if (!IsOver(job)) {
    if (parts_.flush_sessions) STEPSCOPE_RETURN_IF_ERROR(parts_.flush_sessions(job.run));
    STEPSCOPE_RETURN_IF_ERROR(parts_.totals->Drain());
    STEPSCOPE_ASSIGN_OR_RETURN(job, parts_.jobs->EndJob(job.run, request.reason().substr(0, kMostText)));
  }
  FillJob(job, *parts_.jobs, *parts_.totals, *parts_.clock, response);
  return absl::OkStatus();
}

absl::Status ControlHandlers::DeleteJob(Call& call, const v1::DeleteJobRequest& request, v1::DeleteJobResponse* response) const {
  if (request.job().empty()) {
    return absl::InvalidArgumentError("DeleteJob does not guess: name the job, or say \"last\"; `stepscope jobs` lists them");
  }
  STEPSCOPE_ASSIGN_OR_RETURN(const JobSnapshot job, access_->JobOf(call.peer, request.job()));
  if (!IsOver(job)) {
    return absl::FailedPreconditionError(
        fmt::format("job {} is still {}; end it first (`stepscope end {}`)", job.name, JobStateName(job.state), job.name));
  }
  STEPSCOPE_ASSIGN_OR_RETURN(const uint64_t before, parts_.store->DiskBytes());
  for (const RunId run : job.runs) {
    if (parts_.before_delete) parts_.before_delete(run);
    absl::Status forgotten = parts_.jobs->Forget(run);
    if (!forgotten.ok() && !absl::IsNotFound(forgotten)) return forgotten;
    STEPSCOPE_RETURN_IF_ERROR(parts_.store->DeleteRun(run));
  }
  STEPSCOPE_ASSIGN_OR_RETURN(const uint64_t after, parts_.store->DiskBytes());
  response->set_freed_bytes(before > after ? before - after : 0);
  return absl::OkStatus();
}

}  // namespace stepscope
