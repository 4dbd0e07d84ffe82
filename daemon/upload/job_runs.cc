// SPDX-License-Identifier: Apache-2.0
// The JobTable as a RunDirectory, and the Uploader the daemon creates over it.
#include <cstdlib>
#include <memory>
#include <utility>

#include "base/status.h"
#include "daemon/upload/upload_thread.h"

namespace stepscope {
namespace {

/// Facts that say how many nodes a job has, best first.
constexpr const char* kNodeFacts[] = {"launcher.nodes", "SLURM_JOB_NUM_NODES", "SLURM_NNODES", "nnodes", "NNODES"};

int64_t NodesExpected(const std::map<std::string, std::string>& facts) {
  for (const char* name : kNodeFacts) {
    if (const auto at = facts.find(name); at != facts.end()) return std::strtoll(at->second.c_str(), nullptr, 10);
  }
  return 0;
}

bool IsOver(JobState state) { return state != JobState::kRunning && state != JobState::kQuiet; }

/// Every run has a snapshot of its own; a job that was taken up again has several.
class JobRuns final : public RunDirectory {
 public:
  explicit JobRuns(JobTable* jobs) : jobs_(jobs) {}

  std::vector<UploadRun> Runs() const override {
    std::vector<UploadRun> runs;
    for (const JobSnapshot& job : jobs_->List()) {
      // After a restart the table calls every run but a job's newest done, uploaded or not: the progress rows decide.
      const bool newest = job.runs.empty() || job.runs.back() == job.run;
      if (job.state != JobState::kDone || !newest) runs.push_back(Describe(job));
    }
    return runs;
  }
  absl::StatusOr<UploadRun> Find(RunId run) const override {
    STEPSCOPE_ASSIGN_OR_RETURN(const JobSnapshot job, jobs_->ByRun(run));
    return Describe(job);
  }
  void SetJobState(RunId run, JobState state, const std::string& reason) override {
    const absl::StatusOr<JobSnapshot> job = jobs_->ByRun(run);
    if (job.ok() && IsOver(job->state) && !HasLaterRun(*job)) jobs_->SetState(run, state, reason);
  }

 private:
  /// The state of an earlier run is not the job's any more.
  bool HasLaterRun(const JobSnapshot& job) const {
    for (const JobSnapshot& other : jobs_->List()) {
      if (other.job == job.job && other.tenant == job.tenant && other.run > job.run) return true;
    }
    return false;
  }
  static UploadRun Describe(const JobSnapshot& job) {
    UploadRun described;
    described.run = job.run;
    described.uid = job.uid;
    described.kind = job.kind;
    described.id = job.id;
    described.job_name = job.name;
    described.attempt = job.attempt;
    described.node = job.hostname;
    described.boot_id = job.boot_id;
    described.start_node = job.start_node;
    described.start_wall = job.start_wall;
    described.end_node = job.end_node;
    described.end_wall = job.end_wall;
    described.nodes_expected = NodesExpected(job.facts);
    described.ended = IsOver(job.state);
    return described;
  }

  JobTable* const jobs_;
};

}  // namespace

std::unique_ptr<Uploader> Uploader::Create(const UploadConfig& config, const Parts& parts) {
  UploadSeams seams;
  seams.store = parts.store;
  seams.dictionary = parts.dictionary;
  seams.runs = std::make_shared<JobRuns>(parts.jobs);
  seams.clock = parts.clock;
  seams.drain = parts.drain;
  seams.damaged = parts.damaged;
  seams.module_path = parts.module_path;
  return CreateUploadThread(config, seams);
}

}  // namespace stepscope
