// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/job_sample.h"

#include <algorithm>

namespace stepscope {
namespace {

const ProcessSample* FindSample(const JobSample& sample, ProcessKey process) {
  const auto it = sample.processes.find(process);
  return it == sample.processes.end() ? nullptr : &it->second;
}

void FillShares(const JobSample& before, const JobSample& after, ProcessKey process, int64_t between_ns,
                const std::string& schedstat_problem, v1::RankUtilization* row) {
  const ProcessSample* old = FindSample(before, process);
  const ProcessSample* now = FindSample(after, process);
  if (now == nullptr || !now->main_thread) {
    row->set_state(schedstat_problem.empty() ? "unknown: the process is gone" : schedstat_problem);
    return;
  }
  if (old == nullptr || !old->main_thread) {
    row->set_state("unknown: first seen in this second");
    return;
  }
  const auto share = [&](int64_t growth_ns, double most) {
    return std::clamp(static_cast<double>(growth_ns) / static_cast<double>(between_ns), 0.0, most);
  };
  row->set_running(share(now->main_thread->running_ns - old->main_thread->running_ns, 1.0));
  row->set_runnable(share(now->main_thread->runnable_ns - old->main_thread->runnable_ns, 1.0 - row->running()));
  row->set_sleeping(1.0 - row->running() - row->runnable());
}

int64_t CpuGrowthNs(const JobSample& before, ProcessKey process, const ProcessSample& now) {
  const ProcessSample* old = FindSample(before, process);
  return old != nullptr && old->cpu_ns && now.cpu_ns ? std::max<int64_t>(0, *now.cpu_ns - *old->cpu_ns) : 0;
}

/// The followed process this one descends from (or is), which no followed process started.
ProcessKey TopOf(const std::map<Pid, ProcessKey>& by_pid, const JobSample& sample, ProcessKey process) {
  for (size_t depth = 0; depth < by_pid.size(); ++depth) {
    const auto parent = by_pid.find(sample.processes.at(process).parent);
    if (parent == by_pid.end()) break;
    process = parent->second;
  }
  return process;
}

std::vector<v1::RankUtilization> CompareRanks(const JobSample& before, const JobSample& after, int64_t between_ns,
                                              const std::string& schedstat_problem) {
  std::map<int32_t, int64_t> cpu_ns;
  for (const auto& [process, now] : after.processes) cpu_ns[now.rank] += CpuGrowthNs(before, process, now);
  std::vector<v1::RankUtilization> rows;
  for (const RankInfo& rank : after.job.ranks) {
    if (!rank.alive) continue;
    v1::RankUtilization& row = rows.emplace_back();
    row.set_rank(rank.rank);
    row.set_pid(rank.process.pid.value);
    row.set_cpus(static_cast<double>(cpu_ns[rank.rank]) / static_cast<double>(between_ns));
    FillShares(before, after, rank.process, between_ns, schedstat_problem, &row);
  }
  return rows;
}

std::vector<v1::RankUtilization> CompareTopProcesses(const JobSample& before, const JobSample& after, int64_t between_ns,
                                                     const std::string& schedstat_problem) {
  std::map<Pid, ProcessKey> by_pid;
  for (const auto& [process, sample] : after.processes) by_pid[process.pid] = process;
  std::map<ProcessKey, int64_t> cpu_ns;
  for (const auto& [process, now] : after.processes) cpu_ns[TopOf(by_pid, after, process)] += CpuGrowthNs(before, process, now);
  std::vector<v1::RankUtilization> rows;
  for (const auto& [process, ns] : cpu_ns) {
    v1::RankUtilization& row = rows.emplace_back();
    row.set_rank(-1);
    row.set_pid(process.pid.value);
    row.set_cpus(static_cast<double>(ns) / static_cast<double>(between_ns));
    FillShares(before, after, process, between_ns, schedstat_problem, &row);
  }
  return rows;
}

}  // namespace

NodeSample TakeSample(const JobTable& jobs, const ProcessClock& processes, const Clock& clock) {
  NodeSample sample{clock.Node(), clock.Wall(), {}};
  for (const JobSnapshot& job : jobs.List()) {
    if (job.state != JobState::kRunning && job.state != JobState::kQuiet) continue;
    JobSample& job_sample = sample.jobs[job.run];
    job_sample.job = job;
    for (const ProcessKey& process : jobs.Processes(job.run)) {
      const auto parent = processes.Parent(process);
      if (!parent) continue;
      job_sample.processes[process] = {jobs.RankOf(job.run, process), *parent, processes.MainThread(process),
                                       processes.CpuNs(process)};
    }
  }
  return sample;
}

std::vector<v1::RankUtilization> CompareSamples(const JobSample& before, const JobSample& after, int64_t between_ns,
                                                const std::string& schedstat_problem) {
  if (between_ns <= 0) return {};
  const bool has_ranks = std::any_of(after.job.ranks.begin(), after.job.ranks.end(), [](const RankInfo& r) { return r.alive; });
  return has_ranks ? CompareRanks(before, after, between_ns, schedstat_problem)
                   : CompareTopProcesses(before, after, between_ns, schedstat_problem);
}

}  // namespace stepscope
