// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/watch.h"

#include "base/valid_utf8.h"
#include "daemon/live/totals_proto.h"
#include "daemon/rpc/job_proto.h"
#include "daemon/rpc/run_on_pool.h"

namespace stepscope {

WatchStream* WatchStream::Start(const RpcParts& parts, const Access* access, QueryPool* pool, const std::string& peer,
                                const v1::WatchUtilizationRequest& request) {
  std::shared_ptr<WatchStream> stream(new WatchStream(parts, access, request.job(), request.max_updates()));
  stream->self_ = stream;
  if (!pool->Submit([stream, peer] { stream->Open(peer); })) stream->FinishWhenIdle(Overloaded());
  return stream.get();
}

void WatchStream::Open(const std::string& peer) {
  const auto caller = access_->Identify(peer);
  if (!caller.ok()) return FinishWhenIdle(ToGrpcStatus(caller.status()));
  caller_ = *caller;
  if (!job_.empty()) {
    const auto job = access_->Resolve(caller_, job_);
    if (!job.ok()) return FinishWhenIdle(ToGrpcStatus(job.status()));
    run_ = job->run;
  }
  parts_.live->Watch(weak_from_this());
}

v1::Utilization WatchStream::View(const LiveUpdate& update, bool* job_over) const {
  v1::Utilization view;
  view.set_node_ns(update.node.ns);
  view.set_wall_ns(update.wall.ns);
  view.set_provisional(true);
  for (const LiveJob& job : update.jobs) {
    if (caller_.Owns(job.uid) && (!run_ || *run_ == job.run)) *view.add_jobs() = job.view;
  }
  if (!run_ || view.jobs_size() > 0) return view;
  const auto job = parts_.jobs->ByRun(*run_);
  *job_over = !job.ok() || IsOver(*job);
  if (!job.ok()) return view;
  v1::JobUtilization* last = view.add_jobs();
  last->set_job(ValidUtf8(job->job));
  last->set_name(ValidUtf8(job->name));
  last->set_state(JobStateName(job->state));
  FillLoss(parts_.totals->Totals(*run_), last->mutable_loss());
  return view;
}

void WatchStream::OnUpdate(const LiveUpdate& update) {
  parts_.on_query();
  bool job_over = false;
  v1::Utilization view = View(update, &job_over);
  {
    const std::lock_guard lock(mutex_);
    if (finished_ || writing_ || finish_after_write_) return;  // a slow client misses this second
    sending_ = std::move(view);
    writing_ = true;
    ++sent_;
    if (job_over || (max_updates_ != 0 && sent_ >= max_updates_)) finish_after_write_ = grpc::Status::OK;
  }
  StartWrite(&sending_);
}

void WatchStream::OnWriteDone(bool ok) {
  std::optional<grpc::Status> finish;
  {
    const std::lock_guard lock(mutex_);
    writing_ = false;
    if (!ok && !finish_after_write_) finish_after_write_ = grpc::Status::CANCELLED;
    finish = finish_after_write_;
  }
  if (finish) FinishWhenIdle(*finish);
}

void WatchStream::FinishWhenIdle(const grpc::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (finished_) return;
    if (writing_) {
      finish_after_write_ = status;
      return;
    }
    finished_ = true;
  }
  Finish(status);
}

}  // namespace stepscope
