// SPDX-License-Identifier: Apache-2.0
// One WatchUtilization stream: shows the caller its own jobs, one update a second, the newest when the client is slow.
//
//   gRPC thread: constructed ─► pool thread: authorise, find, watch ─► sampler thread: OnUpdate ─► StartWrite
//   gRPC thread: OnWriteDone, OnCancel ─► Finish (once, never while a write is in flight) ─► OnDone: the stream lets itself go
#pragma once

#include <grpcpp/grpcpp.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "daemon/rpc/access.h"
#include "daemon/rpc/parts.h"
#include "daemon/rpc/query_pool.h"
#include "stepscope/v1/query.pb.h"

namespace stepscope {

class WatchStream final : public grpc::ServerWriteReactor<v1::Utilization>,
                          public LiveWatcher,
                          public std::enable_shared_from_this<WatchStream> {
 public:
  static WatchStream* Start(const RpcParts& parts, const Access* access, QueryPool* pool, const std::string& peer,
                            const v1::WatchUtilizationRequest& request);

  void OnUpdate(const LiveUpdate& update) override;

 private:
  WatchStream(const RpcParts& parts, const Access* access, std::string job, uint32_t max_updates)
      : parts_(parts), access_(access), job_(std::move(job)), max_updates_(max_updates) {}

  void Open(const std::string& peer);
  v1::Utilization View(const LiveUpdate& update, bool* job_over) const;
  void FinishWhenIdle(const grpc::Status& status);
  void OnWriteDone(bool ok) override;
  void OnCancel() override { FinishWhenIdle(grpc::Status::CANCELLED); }
  void OnDone() override { self_.reset(); }

  const RpcParts& parts_;
  const Access* access_;
  const std::string job_;       ///< as asked for; empty = all running jobs
  const uint32_t max_updates_;  ///< 0 = until cancelled
  Caller caller_;               ///< set before the first update
  std::optional<RunId> run_;    ///< of job_
  std::shared_ptr<WatchStream> self_;

  std::mutex mutex_;
  v1::Utilization sending_;  ///< owned by gRPC while writing_
  bool writing_ = false;
  bool finished_ = false;
  std::optional<grpc::Status> finish_after_write_;
  uint32_t sent_ = 0;
};

}  // namespace stepscope
