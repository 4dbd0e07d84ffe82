// SPDX-License-Identifier: Apache-2.0
// What collectors and sessions say about processes, carried to the JobTable; and ranks, once known, carried back to the rows'
// entities, so that stored rows name their rank without the JobTable.
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "daemon/collector/task_observer.h"
#include "daemon/ingest/session_jobs.h"
#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/delivery.h"

namespace stepscope {

class JobObserver final : public TaskObserver, public SessionJobs {
 public:
  JobObserver(JobTable* jobs, DeliverySink* sink) : jobs_(jobs), sink_(sink) {}

  /// Looks whether processes of running jobs got a rank since the last call; once a second.
  void NoteRanks();

  void OnProcess(RunId run, ProcessKey process, ProcessKey parent) override { jobs_->OnProcess(run, process, parent); }
  void OnProcessExit(RunId run, ProcessKey process, size_t remaining) override;
  void OnThread(const ThreadFacts& thread) override { jobs_->OnThread(thread.run, thread.is_new ? 1 : 0); }
  void OnThreadExit(RunId, const EntityKey&, const ThreadTotals&) override {}

  absl::StatusOr<RunId> RunForSession(ProcessKey process, uint32_t uid,
                                      const std::map<std::string, std::string>& facts) override {
    return jobs_->RunForSession(process, uid, facts);
  }
  void AddFact(RunId run, const std::string& key, const std::string& value) override { jobs_->AddFact(run, key, value); }
  void AddSenderCpu(RunId run, int64_t cpu_ns) override { jobs_->AddSenderCpu(run, cpu_ns); }
  int32_t RankOf(RunId run, ProcessKey process) override { return jobs_->RankOf(run, process); }

 private:
  void NoteRank(RunId run, ProcessKey process);

  JobTable* const jobs_;
  DeliverySink* const sink_;
  std::mutex mu_;
  std::map<std::pair<RunId, ProcessKey>, int32_t> noted_;
};

}  // namespace stepscope
