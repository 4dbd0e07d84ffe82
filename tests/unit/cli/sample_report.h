// SPDX-License-Identifier: Apache-2.0
// Reports for the tests of both forms: one of two ranks in which each number is different and easily told apart.
#pragma once

#include <string>

#include "cli/report.h"

namespace stepscope::cli {

inline void AddProcess(v1::Summary* summary, int pid, int rank, const std::string& role, int64_t running_ns, int64_t runnable_ns,
                       uint64_t slices) {
  v1::ProcessSummary* process = summary->add_processes();
  process->set_pid(pid);
  process->set_rank(rank);
  process->set_name("python");
  process->set_role(role);
  process->set_threads(3);
  process->set_running_ns(running_ns);
  process->set_runnable_ns(runnable_ns);
  process->set_slices(slices);
}

inline v1::ThreadSummary* AddThread(v1::Summary* summary, int tid, const std::string& name, int64_t running_ns) {
  v1::ThreadSummary* thread = summary->add_threads();
  thread->set_tid(tid);
  thread->set_pid(100);
  thread->set_name(name);
  thread->set_running_ns(running_ns);
  thread->set_runnable_ns(4'500);
  thread->set_sleeping_ns(7);
  thread->set_exec_ns(running_ns + 1);
  thread->set_rq_wait_ns(4'501);
  thread->set_slices(21);
  thread->set_preempted(1'234);
  thread->set_max_wait_ns(3'200);
  thread->set_seq_holes(5);
  return thread;
}

inline v1::WaitSummary* AddWait(v1::ThreadSummary* thread, const std::string& cause, const std::string& syscall, int64_t ns,
                                const std::string& end) {
  v1::WaitSummary* wait = thread->add_waits();
  wait->set_cause(cause);
  wait->set_syscall(syscall);
  wait->set_ns(ns);
  wait->set_count(3);
  wait->set_timeouts(8);
  wait->set_max_ns(ns / 2);
  wait->set_end(end);
  return wait;
}

inline void SetPeer(v1::WaitPeer* peer, int pid, int tid, const std::string& thread, const std::string& doing = "") {
  peer->set_pid(pid);
  peer->set_tid(tid);
  peer->set_rank(pid == 100 ? 0 : -1);
  peer->set_thread(thread);
  peer->set_process("python worker.py");
  peer->set_doing(doing);
}

inline v1::LossTotal* AddLoss(v1::Summary* summary, const std::string& stage, int64_t count) {
  v1::LossTotal* loss = summary->add_loss();
  loss->set_stage(stage);
  loss->set_reason("ring full");
  loss->set_table("span");
  loss->set_count(count);
  loss->set_bytes(-1);
  return loss;
}

inline v1::SpanSummary* AddSpan(v1::Summary* summary, const std::string& name, uint64_t count, int64_t total_ns) {
  v1::SpanSummary* span = summary->add_spans();
  span->set_name(name);
  span->set_domain("user");
  span->set_rank(1);
  span->set_count(count);
  span->set_total_ns(total_ns);
  span->set_min_ns(1);
  span->set_max_ns(6'000'000);
  return span;
}

inline Report TwoRanks() {
  Report report;
  v1::Summary& s = report.summary;
  s.set_begin_ns(1'000'000'000);
  s.set_end_ns(3'500'000'000);
  s.set_final(true);
  v1::Job* job = s.mutable_job();
  job->set_job("1000.run.demo");
  job->set_name("demo");
  job->set_kind("run");
  job->set_state("done");
  job->set_command("torchrun train.py");
  (*job->mutable_facts())["lr"] = "3e-4";
  for (int rank = 0; rank < 2; ++rank) {
    v1::Rank* r = job->add_ranks();
    r->set_rank(rank);
    r->set_pid(100 + rank);
    r->set_world_size(2);
  }
  v1::TableCount* table = job->add_tables();
  table->set_table("span");
  table->set_rows(40);
  table->set_stored_bytes(300);
  AddProcess(&s, 100, 0, "rank", 2'000'000'000, 30'000'000, 700);
  AddProcess(&s, 101, 1, "rank", 1'000'000'000, 12'000'000, 300);
  AddProcess(&s, 99, -1, "launcher", 5'000'000, 0, 11);
  AddThread(&s, 100, "python", 1'900'000'000)->set_rank(0);
  AddSpan(&s, "forward", 4, 10'000'000);
  v1::StepSummary* steps = s.add_steps();
  steps->set_rank(1);
  steps->set_count(20);
  steps->set_median_ns(50'000'000);
  steps->set_min_ns(40'000'000);
  steps->set_max_ns(90'000'000);
  steps->set_total_ns(1'000'000'000);
  steps->set_loader_ns(123'000'000);
  v1::Step* step = report.steps.add_steps();
  step->set_rank(1);
  step->set_number(7);
  step->set_dur_ns(50'000'000);
  step->set_source("user");
  s.mutable_overhead()->set_daemon_cpu_ns(250'000'000);
  s.mutable_overhead()->set_sender_cpu_ns(1'500'000);
  s.mutable_overhead()->set_stored_bytes(1'200'000);
  s.mutable_overhead()->set_daemon_rss_bytes(60'000'000);
  return report;
}

}  // namespace stepscope::cli
