// SPDX-License-Identifier: Apache-2.0
// GetSummary, the CPU part: where each process's and thread's time went, spans by name and rank, steps, loss, our own cost.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "analysis/interval_sum.h"
#include "analysis/loss_text.h"
#include "analysis/span_totals.h"
#include "analysis/steps.h"
#include "analysis/thread_time.h"
#include "base/status.h"
#include "base/valid_utf8.h"
#include "daemon/live/own_cost.h"
#include "daemon/live/totals_proto.h"
#include "daemon/rpc/job_proto.h"
#include "daemon/rpc/occupant_summary.h"
#include "daemon/rpc/query_handlers.h"
#include "daemon/rpc/row_scan.h"
#include "daemon/rpc/wait_summary.h"

namespace stepscope {
namespace {

constexpr size_t kMostThreads = 1'000;
constexpr size_t kMostSpanNames = 5'000;

/// All a summary needs of the rows, before it is put into words.
struct Sums {
  explicit Sums(TimeRange window) : threads(window), spans(window), occupants(window) {}
  ThreadTimes threads;
  SpanTotals spans;
  CpuOccupants occupants;
  StepFinder steps;
  std::map<uint32_t, IntervalSum> loader;  ///< by lane
};

void AddSpans(const Batch& batch, Sums* sums) {
  sums->spans.Add(batch);
  sums->steps.Add(batch);
  const auto& c = batch.columns;
  for (size_t row = 0; row < batch.rows(); ++row) {
    if (c[span_column::kDomain][row] != static_cast<int64_t>(SpanDomain::kLoader)) continue;
    const int64_t start = c[span_column::kStart][row];
    sums->loader[batch.lane[row]].Add(start, start + c[span_column::kDur][row]);
  }
}

/// Where a thread not seen beginning or ending is taken to have lived.
struct Lifetime {
  TimeRange window;
  bool whole_job;
  bool over;
  NodeTime Since(const ThreadTime& time) const { return whole_job ? time.first : window.begin; }
  NodeTime Until(const ThreadTime& time) const { return over ? window.end : time.last; }
};

using ThreadTimeByLane = std::unordered_map<uint32_t, ThreadTime>;

/// Times of the turns seen, cut to `window`: what is known of its ends.
TimeRange TurnsIn(const ThreadTimeByLane& times, TimeRange window) {
  TimeRange seen{window.end, window.begin};
  for (const auto& [lane, time] : times) {
    seen.begin = std::min(seen.begin, std::max(time.first, window.begin));
    seen.end = std::max(seen.end, std::min(time.last, window.end));
  }
  return seen;
}

void FillThread(const ThreadTime& time, const LaneFact& fact, const Lifetime& life, v1::ThreadSummary* thread) {
  thread->set_tid(fact.tid);
  thread->set_pid(fact.pid);
  thread->set_rank(fact.rank);
  thread->set_name(fact.name);
  thread->set_running_ns(time.running_ns);
  thread->set_runnable_ns(time.runnable_ns);
  thread->set_sleeping_ns(time.SleepingNs(life.window, life.Since(time), life.Until(time)));
  thread->set_exec_ns(time.exec_ns);
  thread->set_rq_wait_ns(time.rq_wait_ns);
  thread->set_slices(time.slices);
  thread->set_preempted(time.preempted);
  thread->set_max_wait_ns(time.max_wait_ns);
  thread->set_seq_holes(time.seq_holes);
}

/// A rank's own process, its workers, the process everything else descends from, the rest.
std::string RoleOf(const JobSnapshot& job, ProcessKey process, int32_t rank, ProcessKey oldest) {
  const bool is_rank = std::any_of(job.ranks.begin(), job.ranks.end(), [&](const RankInfo& r) { return r.process == process; });
  if (is_rank) return "rank";
  if (rank >= 0) return "loader worker";
  return process == oldest ? "launcher" : "other";
}

bool TurnsWereEvicted(const RpcParts& parts, RunId run) {
  return parts.totals->Totals(run).loss.contains({static_cast<int64_t>(LossStage::kRetention),
                                                  static_cast<int64_t>(LossReason::kEvicted),
                                                  static_cast<int64_t>(TableId::kSchedSlice)});
}

int64_t KnownAsleepNs(const std::map<WaitKey, WaitSum>& waits) {
  int64_t asleep_ns = 0;
  for (const auto& [key, sum] : waits) {
    if (IsAsleep(key.cause) && key.cause != WaitCause::kNotRecorded) asleep_ns += sum.ns;
  }
  return asleep_ns;
}

void FillThreads(const RpcParts& parts, const ThreadTimeByLane& times, const WaitTotals& waits, const CpuOccupants& occupants,
                 const LaneFacts& lanes, const JobSnapshot& job, const Lifetime& life, v1::Summary* summary) {
  const bool evicted = TurnsWereEvicted(parts, job.run);
  std::map<ProcessKey, v1::ProcessSummary> processes;
  std::vector<v1::ThreadSummary> threads;
  for (const auto& [lane, time] : times) {
    const LaneFact& fact = lanes.Of(lane);
    FillThread(time, fact, life, &threads.emplace_back());
    const auto of_thread = waits.threads().find(lane);
    if (of_thread != waits.threads().end()) FillWaits(of_thread->second, lanes, &threads.back());
    // Where turns were not kept, what is neither running nor runnable is not all sleep.
    if (evicted && time.seq_holes > 0) {
      const bool any = of_thread != waits.threads().end();
      threads.back().set_sleeping_ns(any ? KnownAsleepNs(of_thread->second) : 0);
    }
    v1::ProcessSummary& process = processes[fact.process];
    process.set_pid(fact.pid);
    process.set_rank(fact.rank);
    process.set_name(fact.process_name);
    process.set_running_ns(process.running_ns() + time.running_ns);
    process.set_runnable_ns(process.runnable_ns() + time.runnable_ns);
    process.set_slices(process.slices() + time.slices);
    process.set_threads(process.threads() + 1);
  }
  FillOccupants(parts, job.run, occupants, lanes, &processes);
  ProcessKey oldest{Pid{0}, INT64_MAX};
  for (const auto& [key, process] : processes) {
    if (std::pair(key.start_ticks, key.pid) < std::pair(oldest.start_ticks, oldest.pid)) oldest = key;
  }
  for (auto& [key, process] : processes) {
    process.set_role(RoleOf(job, key, process.rank(), oldest));
    *summary->add_processes() = std::move(process);
  }
  std::sort(threads.begin(), threads.end(), [](const auto& a, const auto& b) {
    return std::pair(-a.running_ns(), a.tid()) < std::pair(-b.running_ns(), b.tid());
  });
  summary->set_threads_cut(threads.size() > kMostThreads);
  if (threads.size() > kMostThreads) threads.resize(kMostThreads);
  for (v1::ThreadSummary& thread : threads) *summary->add_threads() = std::move(thread);
}

void FillSpans(const RpcParts& parts, const Sums& sums, const LaneFacts& lanes, RunId run, v1::Summary* summary) {
  std::map<std::tuple<int64_t, int64_t, int32_t>, SpanTotal> totals;  // name, domain, rank
  for (const auto& [key, total] : sums.spans.totals()) totals[{key.name, key.domain, lanes.Of(key.lane).rank}].Merge(total);
  std::vector<std::pair<std::tuple<int64_t, int64_t, int32_t>, SpanTotal>> sorted(totals.begin(), totals.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    return std::pair(-a.second.total_ns, a.first) < std::pair(-b.second.total_ns, b.first);
  });
  if (sorted.size() > kMostSpanNames) sorted.resize(kMostSpanNames);
  for (const auto& [key, total] : sorted) {
    v1::SpanSummary* span = summary->add_spans();
    span->set_name(ValidUtf8(parts.dictionary->Name(run, NameId{static_cast<uint32_t>(std::get<0>(key))})));
    span->set_domain(SpanDomainText(std::get<1>(key)));
    span->set_rank(std::get<2>(key));
    span->set_count(total.count);
    span->set_total_ns(total.total_ns);
    span->set_min_ns(total.min_ns);
    span->set_max_ns(total.max_ns);
  }
}

void FillSteps(Sums* sums, const LaneFacts& lanes, TimeRange rows, v1::Summary* summary) {
  std::map<int32_t, std::vector<int64_t>> durations;
  std::map<int32_t, std::map<uint32_t, bool>> step_lanes;
  for (const StepRow& step : sums->steps.Steps([&](uint32_t lane) { return lanes.GroupOf(lane); })) {
    if (step.start < rows.begin || step.start >= rows.end) continue;
    durations[lanes.Of(step.lane).rank].push_back(step.dur_ns);
    step_lanes[lanes.Of(step.lane).rank][step.lane] = true;
  }
  for (auto& [lane, loader] : sums->loader) loader.Seal();
  for (auto& [rank, dur_ns] : durations) {
    const StepStatistics statistics = StatisticsOf(std::move(dur_ns));
    v1::StepSummary* steps = summary->add_steps();
    steps->set_rank(rank);
    steps->set_count(statistics.count);
    steps->set_min_ns(statistics.min_ns);
    steps->set_median_ns(statistics.median_ns);
    steps->set_max_ns(statistics.max_ns);
    steps->set_total_ns(statistics.total_ns);
    int64_t loader_ns = 0;
    for (const auto& [lane, used] : step_lanes[rank]) loader_ns += sums->loader[lane].OverlapNs(rows.begin.ns, rows.end.ns);
    steps->set_loader_ns(loader_ns);
  }
}

void FillOverhead(const RpcParts& parts, const JobSnapshot& job, v1::Summary* summary) {
  const OwnCost cost = ReadOwnCost();
  v1::Overhead* overhead = summary->mutable_overhead();
  overhead->set_daemon_cpu_ns(cost.cpu_ns);
  overhead->set_daemon_rss_bytes(cost.rss_bytes);
  overhead->set_sender_cpu_ns(job.sender_cpu_ns);
  RunTotals totals = parts.totals->Totals(job.run);
  uint64_t stored_bytes = 0;
  for (const auto& [table, total] : totals.tables) stored_bytes += total.stored_bytes;
  overhead->set_stored_bytes(stored_bytes);
  FillLoss(totals, summary->mutable_loss());
}

}  // namespace

absl::Status QueryHandlers::GetSummary(Call& call, const v1::GetSummaryRequest& request, v1::Summary* summary) const {
  STEPSCOPE_ASSIGN_OR_RETURN(const JobSnapshot job, access_->JobOf(call.peer, request.job()));
  STEPSCOPE_ASSIGN_OR_RETURN(const QueryRange range, RangeOf(job, request.begin_ns(), request.end_ns(), *parts_.clock));
  Sums sums(range.rows);
  STEPSCOPE_RETURN_IF_ERROR(ScanRows(parts_, job, TableId::kSpan, range.rows, &call.budget, summary->mutable_holes(),
                                     [&](const Batch& batch) { AddSpans(batch, &sums); }));
  STEPSCOPE_RETURN_IF_ERROR(ScanRows(parts_, job, TableId::kSchedSlice, range.rows, &call.budget, summary->mutable_holes(),
                                     [&](const Batch& batch) { sums.threads.Add(batch); }));
  STEPSCOPE_RETURN_IF_ERROR(ScanRows(parts_, job, TableId::kSchedWait, range.rows, &call.budget, summary->mutable_holes(),
                                     [&](const Batch& batch) { sums.occupants.Add(batch); }));
  // After the rows: a lane first used while they were read is in the dictionary by now.
  const LaneFacts lanes(*parts_.dictionary, *parts_.jobs, job.run);
  STEPSCOPE_RETURN_IF_ERROR(FillHoles(parts_, job, lanes, range.rows, &call.budget, summary->mutable_holes()));
  if (call.budget.exhausted()) {
    return absl::ResourceExhaustedError(fmt::format(
        "a summary of job {} over this range takes more than one query may; give a shorter begin_ns … end_ns", job.name));
  }
  FillJob(job, *parts_.jobs, *parts_.totals, *parts_.clock, summary->mutable_job());
  summary->set_begin_ns(range.shown.begin.ns);
  summary->set_end_ns(range.shown.end.ns);
  summary->set_final(IsOver(job));
  const ThreadTimeByLane times = sums.threads.Finish();
  uint64_t turns = 0;
  for (const auto& [lane, time] : times) turns += time.slices;
  STEPSCOPE_ASSIGN_OR_RETURN(const WaitScan waits, ScanWaits(parts_, job, lanes, TurnsIn(times, range.rows), turns, &call.budget,
                                                             summary->mutable_holes()));
  summary->set_waits_cut(waits.cut);
  FillThreads(parts_, times, waits.totals, sums.occupants, lanes, job, {range.shown, request.begin_ns() == 0, IsOver(job)},
              summary);
  FillSpans(parts_, sums, lanes, job.run, summary);
  FillSteps(&sums, lanes, range.rows, summary);
  FillOverhead(parts_, job, summary);
  return absl::OkStatus();
}

}  // namespace stepscope
