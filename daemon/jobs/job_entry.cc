// SPDX-License-Identifier: Apache-2.0
#include "daemon/jobs/job_entry.h"

#include <fmt/format.h>

#include "stepscope/store/v1/store.pb.h"

namespace stepscope {
namespace {

namespace pb = store::v1;

/// A run that a later one followed is over, whatever the job's state says now.
JobState StateOf(const pb::JobRecord& job, uint32_t run) {
  if (job.runs_size() > 0 && job.runs(job.runs_size() - 1) != run) return JobState::kDone;
  for (const JobState state : {JobState::kRunning, JobState::kQuiet, JobState::kUploading, JobState::kDone, JobState::kFailed}) {
    if (job.state() == JobStateName(state)) return state;
  }
  return JobState::kEnded;
}

void TakeJob(const pb::JobRecord& job, JobSnapshot* s) {
  for (const uint32_t run : job.runs()) s->runs.push_back(RunId{run});
  s->name = job.name();
  s->uid = job.uid();
  s->tenant = job.tenant();
  s->kind = job.kind();
  s->id = job.id();
  s->job = fmt::format("{}.{}.{}", s->uid, s->kind, s->id);
  s->command = job.command();
  s->facts.insert(job.facts().begin(), job.facts().end());
  s->state_reason = job.state_reason();
}

void TakeRun(const pb::RunRecord& run, JobSnapshot* s) {
  s->run = RunId{run.run()};
  s->attempt = run.attempt();
  s->start_node = {run.start_node_ns()};
  s->start_wall = {run.start_wall_ns()};
  s->end_node = {run.end_node_ns()};
  s->end_wall = {run.end_wall_ns()};
  s->hostname = run.hostname();
  s->boot_id = run.boot_id();
  s->sender_cpu_ns = run.sender_cpu_ns();
  s->processes = run.processes();
  s->threads = run.threads();
  for (const auto& rank : run.ranks()) {
    s->ranks.push_back(
        {rank.rank(), rank.local_rank(), rank.world_size(), rank.restart(), {Pid{rank.pid()}, rank.start_ticks()}, false});
  }
}

}  // namespace

std::string JobKeyOf(const JobSnapshot& snapshot) { return snapshot.tenant + '\x1f' + snapshot.job; }

std::string EncodeJob(const JobEntry& entry) {
  const JobSnapshot& s = entry.snapshot;
  pb::JobRecord job;
  job.set_name(s.name);
  job.set_uid(s.uid);
  job.set_tenant(s.tenant);
  job.set_kind(s.kind);
  job.set_id(s.id);
  job.set_state(JobStateName(s.state));
  job.set_state_reason(s.state_reason);
  job.set_command(s.command);
  job.mutable_facts()->insert(s.facts.begin(), s.facts.end());
  for (const RunId run : s.runs) job.add_runs(run.value);
  return job.SerializeAsString();
}

std::string EncodeRun(const JobEntry& entry) {
  const JobSnapshot& s = entry.snapshot;
  pb::RunRecord run;
  run.set_run(s.run.value);
  run.set_job_key(JobKeyOf(s));
  run.set_attempt(s.attempt);
  run.set_boot_id(s.boot_id);
  run.set_reopening(entry.reopening);
  run.set_start_node_ns(s.start_node.ns);
  run.set_start_wall_ns(s.start_wall.ns);
  run.set_end_node_ns(s.end_node.ns);
  run.set_end_wall_ns(s.end_wall.ns);
  run.set_sender_cpu_ns(s.sender_cpu_ns);
  run.set_hostname(s.hostname);
  run.set_processes(s.processes);
  run.set_threads(s.threads);
  for (const RankInfo& rank : s.ranks) {
    auto* r = run.add_ranks();
    r->set_rank(rank.rank);
    r->set_local_rank(rank.local_rank);
    r->set_world_size(rank.world_size);
    r->set_pid(rank.process.pid.value);
    r->set_start_ticks(rank.process.start_ticks);
    r->set_restart(rank.restart);
  }
  for (const ProcessKey& root : entry.roots) {
    auto* r = run.add_roots();
    r->set_pid(root.pid.value);
    r->set_start_ticks(root.start_ticks);
  }
  return run.SerializeAsString();
}

std::optional<JobEntry> DecodeEntry(std::string_view run, const std::map<std::string, std::string>& jobs) {
  pb::RunRecord record;
  if (!record.ParseFromArray(run.data(), static_cast<int>(run.size()))) return std::nullopt;
  const auto job_bytes = jobs.find(record.job_key());
  pb::JobRecord job;
  if (job_bytes == jobs.end() || !job.ParseFromString(job_bytes->second)) return std::nullopt;
  JobEntry entry;
  entry.reopening = record.reopening();
  TakeJob(job, &entry.snapshot);
  TakeRun(record, &entry.snapshot);
  entry.snapshot.state = StateOf(job, record.run());
  for (const auto& root : record.roots()) entry.roots.push_back({Pid{root.pid()}, root.start_ticks()});
  return entry;
}

}  // namespace stepscope
