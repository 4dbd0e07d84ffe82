// SPDX-License-Identifier: Apache-2.0
// What collectors and sessions say about processes and threads, carried to the JobTable and from one to the other; and ranks,
// once known, carried back to the rows' entities, so that stored rows name their rank without the JobTable.
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "daemon/collector/task_observer.h"
#include "daemon/ingest/inner_tids.h"
#include "daemon/ingest/session_jobs.h"
#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/delivery.h"

namespace stepscope {

class JobObserver final : public TaskObserver, public SessionJobs {
 public:
  /// `catch_up` makes the collector tell all it has read up to now.
  JobObserver(JobTable* jobs, DeliverySink* sink, const Clock* clock, std::function<void()> catch_up)
      : jobs_(jobs), sink_(sink), tids_(clock), catch_up_(std::move(catch_up)) {}

  /// Looks whether processes of running jobs got a rank since the last call; once a second.
  void NoteRanks();

  void OnProcess(RunId run, ProcessKey process, ProcessKey parent) override { jobs_->OnProcess(run, process, parent); }
  void OnProcessExit(RunId run, ProcessKey process, size_t remaining) override;
  void OnThread(const ThreadFacts& thread) override;
  void OnThreadExit(RunId run, const EntityKey& thread, const ThreadTotals& totals) override;

  absl::StatusOr<RunId> RunForSession(ProcessKey process, uint32_t uid,
                                      const std::map<std::string, std::string>& facts) override {
    return jobs_->RunForSession(process, uid, facts);
  }
  void AddFact(RunId run, const std::string& key, const std::string& value) override { jobs_->AddFact(run, key, value); }
  void AddSenderCpu(RunId run, int64_t cpu_ns) override { jobs_->AddSenderCpu(run, cpu_ns); }
  int32_t RankOf(RunId run, ProcessKey process) override { return jobs_->RankOf(run, process); }
  ProcessKey SeenProcess(ProcessKey gone, uint32_t uid) override { return jobs_->SeenProcess(gone, uid); }
  std::optional<int32_t> HostTid(ProcessKey process, int32_t inner_tid) override { return tids_.Host(process, inner_tid); }
  void CatchUpThreads() override { catch_up_(); }

 private:
  void NoteRank(RunId run, ProcessKey process);

  JobTable* const jobs_;
  DeliverySink* const sink_;
  InnerTids tids_;
  const std::function<void()> catch_up_;
  std::mutex mu_;
  std::map<std::pair<RunId, ProcessKey>, int32_t> noted_;
};

}  // namespace stepscope
