// SPDX-License-Identifier: Apache-2.0
#include "daemon/rpc/job_proto.h"

#include "base/valid_utf8.h"
#include "daemon/live/totals_proto.h"

namespace stepscope {
namespace {

void FillRanks(const JobSnapshot& job, v1::Job* message) {
  for (const RankInfo& info : job.ranks) {
    v1::Rank* rank = message->add_ranks();
    rank->set_rank(info.rank);
    rank->set_local_rank(info.local_rank);
    rank->set_world_size(info.world_size);
    rank->set_pid(info.process.pid.value);
    rank->set_restart(info.restart);
    rank->set_alive(info.alive);
  }
}

/// A run deleted meanwhile is left out.
void FillRun(const JobTable& jobs, RunId number, v1::Job* message) {
  const auto run = jobs.ByRun(number);
  if (!run.ok()) return;
  v1::JobRun* entry = message->add_history();
  entry->set_run(number.value);
  entry->set_attempt(run->attempt);
  entry->set_boot_id(run->boot_id);
  entry->set_state(JobStateName(run->state));
  entry->set_start_wall_ns(run->start_wall.ns);
  entry->set_end_wall_ns(run->end_wall.ns);
}

}  // namespace

void FillJob(const JobSnapshot& job, const JobTable& jobs, const TotalsSource& totals, const Clock& clock, v1::Job* message) {
  message->set_job(ValidUtf8(job.job));
  message->set_name(ValidUtf8(job.name));
  message->set_uid(job.uid);
  message->set_tenant(ValidUtf8(job.tenant));
  message->set_kind(ValidUtf8(job.kind));
  message->set_attempt(job.attempt);
  message->set_state(JobStateName(job.state));
  message->set_state_reason(ValidUtf8(job.state_reason));
  message->set_start_wall_ns(job.start_wall.ns);
  message->set_end_wall_ns(job.end_wall.ns);
  message->set_start_node_ns(job.start_node.ns);
  message->set_end_node_ns(job.end_node.ns);
  message->set_dur_ns((IsOver(job) ? job.end_node : clock.Node()) - job.start_node);
  message->set_command(ValidUtf8(job.command));
  message->set_processes(job.processes);
  message->set_threads(job.threads);
  message->set_run(job.run.value);
  for (const auto& [key, value] : job.facts) (*message->mutable_facts())[ValidUtf8(key)] = ValidUtf8(value);
  FillRanks(job, message);
  RunTotals sum;
  for (const RunId run : job.runs) {
    message->add_runs(run.value);
    FillRun(jobs, run, message);
    AddTotals(totals.Totals(run), &sum);
  }
  FillTables(sum, message->mutable_tables());
  FillLoss(sum, message->mutable_loss());
}

bool IsOver(const JobSnapshot& job) { return job.state != JobState::kRunning && job.state != JobState::kQuiet; }

}  // namespace stepscope
