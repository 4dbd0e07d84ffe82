// SPDX-License-Identifier: Apache-2.0
// What collectors say about processes and threads, carried to the JobTable and to the sessions; and ranks, once known, carried
// back to the rows' entities, so that stored rows name their rank without the JobTable.
#pragma once

#include <map>
#include <mutex>
#include <utility>

#include "daemon/collector/task_observer.h"
#include "daemon/ingest/inner_tids.h"
#include "daemon/jobs/job_table.h"
#include "daemon/pipeline/delivery.h"

namespace stepscope {

class JobObserver final : public TaskObserver {
 public:
  JobObserver(JobTable* jobs, DeliverySink* sink, InnerTids* tids) : jobs_(jobs), sink_(sink), tids_(tids) {}

  /// Looks whether processes of running jobs got a rank since the last call; once a second.
  void NoteRanks();

  void OnProcess(RunId run, ProcessKey process, ProcessKey parent) override { jobs_->OnProcess(run, process, parent); }
  void OnProcessExit(RunId run, ProcessKey process, size_t remaining) override;
  void OnThread(const ThreadFacts& thread) override;
  void OnThreadExit(RunId run, const EntityKey& thread, const ThreadTotals& totals) override;

 private:
  void NoteRank(RunId run, ProcessKey process);

  JobTable* const jobs_;
  DeliverySink* const sink_;
  InnerTids* const tids_;
  std::mutex mu_;
  std::map<std::pair<RunId, ProcessKey>, int32_t> noted_;
};

}  // namespace stepscope
