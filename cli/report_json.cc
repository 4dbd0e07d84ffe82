// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "cli/report.h"

namespace stepscope::cli {
namespace {

using nlohmann::ordered_json;

ordered_json JobJson(const v1::Job& job) {
  ordered_json ranks = ordered_json::array();
  for (const auto& rank : job.ranks()) {
    ranks.push_back({{"rank", rank.rank()},
                     {"local_rank", rank.local_rank()},
                     {"world_size", rank.world_size()},
                     {"pid", rank.pid()},
                     {"restart", rank.restart()}});
  }
  ordered_json tables = ordered_json::object();
  for (const auto& table : job.tables()) tables[table.table()] = {{"rows", table.rows()}, {"stored_bytes", table.stored_bytes()}};
  ordered_json facts = ordered_json::object();
  for (const auto& [key, value] : job.facts()) facts[key] = value;
  return {{"job", job.job()},
          {"name", job.name()},
          {"kind", job.kind()},
          {"uid", job.uid()},
          {"tenant", job.tenant()},
          {"attempt", job.attempt()},
          {"state", job.state()},
          {"state_reason", job.state_reason()},
          {"command", job.command()},
          {"start_wall_ns", job.start_wall_ns()},
          {"end_wall_ns", job.end_wall_ns()},
          {"ranks", ranks},
          {"tables", tables},
          {"processes", job.processes()},
          {"facts", facts}};
}

ordered_json CpusJson(const v1::Summary& summary) {
  int64_t running = 0;
  int64_t runnable = 0;
  uint64_t slices = 0;
  ordered_json processes = ordered_json::array();
  for (const auto& p : summary.processes()) {
    running += p.running_ns();
    runnable += p.runnable_ns();
    slices += p.slices();
    ordered_json occupants = ordered_json::array();
    for (const auto& o : p.occupants())
      occupants.push_back({{"name", o.name()}, {"pid", o.pid()}, {"class", o.class_()}, {"ns", o.ns()}});
    processes.push_back({{"pid", p.pid()},
                         {"rank", p.rank()},
                         {"name", p.name()},
                         {"role", p.role()},
                         {"threads", p.threads()},
                         {"running_ns", p.running_ns()},
                         {"runnable_ns", p.runnable_ns()},
                         {"slices", p.slices()},
                         {"occupants", std::move(occupants)}});
  }
  return {{"running_ns", running}, {"runnable_ns", runnable}, {"slices", slices}, {"processes", processes}};
}

ordered_json PeerJson(const v1::WaitPeer& peer) {
  return {{"tid", peer.tid()},       {"pid", peer.pid()},         {"rank", peer.rank()},
          {"thread", peer.thread()}, {"process", peer.process()}, {"doing", peer.doing()}};
}

ordered_json WaitsJson(const v1::ThreadSummary& thread) {
  ordered_json waits = ordered_json::array();
  for (const auto& w : thread.waits()) {
    waits.push_back({{"cause", w.cause()},
                     {"syscall", w.syscall()},
                     {"ns", w.ns()},
                     {"count", w.count()},
                     {"timeouts", w.timeouts()},
                     {"max_ns", w.max_ns()},
                     {"end", w.end()}});
    if (w.has_peer()) waits.back()["peer"] = PeerJson(w.peer());
    if (w.has_root()) waits.back()["root"] = PeerJson(w.root());
  }
  return waits;
}

ordered_json ThreadsJson(const v1::Summary& summary) {
  ordered_json threads = ordered_json::array();
  for (const auto& t : summary.threads()) {
    threads.push_back({{"tid", t.tid()},
                       {"pid", t.pid()},
                       {"rank", t.rank()},
                       {"name", t.name()},
                       {"running_ns", t.running_ns()},
                       {"runnable_ns", t.runnable_ns()},
                       {"sleeping_ns", t.sleeping_ns()},
                       {"exec_ns", t.exec_ns()},
                       {"rq_wait_ns", t.rq_wait_ns()},
                       {"slices", t.slices()},
                       {"preempted", t.preempted()},
                       {"max_wait_ns", t.max_wait_ns()},
                       {"seq_holes", t.seq_holes()},
                       {"waits", WaitsJson(t)}});
  }
  return threads;
}

ordered_json StepsJson(const Report& report) {
  ordered_json steps = ordered_json::array();
  for (const auto& s : report.steps.steps()) {
    steps.push_back({{"rank", s.rank()},
                     {"number", s.number()},
                     {"start_ns", s.start_ns()},
                     {"dur_ns", s.dur_ns()},
                     {"running_ns", s.running_ns()},
                     {"runnable_ns", s.runnable_ns()},
                     {"loader_ns", s.loader_ns()},
                     {"source", s.source()}});
  }
  return steps;
}

ordered_json SpansJson(const v1::Summary& summary) {
  ordered_json spans = ordered_json::array();
  for (const auto& s : summary.spans()) {
    spans.push_back({{"name", s.name()},
                     {"domain", s.domain()},
                     {"rank", s.rank()},
                     {"count", s.count()},
                     {"total_ns", s.total_ns()},
                     {"min_ns", s.min_ns()},
                     {"max_ns", s.max_ns()},
                     {"mean_ns", s.count() == 0 ? 0 : s.total_ns() / static_cast<int64_t>(s.count())}});
  }
  return spans;
}

ordered_json LossJson(const v1::Summary& summary) {
  ordered_json loss = ordered_json::array();
  for (const auto& l : summary.loss()) {
    loss.push_back(
        {{"stage", l.stage()}, {"reason", l.reason()}, {"table", l.table()}, {"count", l.count()}, {"bytes", l.bytes()}});
  }
  return loss;
}

}  // namespace

std::string RenderJson(const Report& report) {
  const v1::Summary& s = report.summary;
  ordered_json json = {
      {"schema", "stepscope.report.v1"},
      {"job", JobJson(s.job())},
      {"window", {{"begin_ns", s.begin_ns()}, {"end_ns", s.end_ns()}, {"final", s.final()}}},
      {"devices", ordered_json::array()},
      {"kernels", ordered_json::array()},
      {"cpus", CpusJson(s)},
      {"threads", ThreadsJson(s)},
      {"threads_cut", s.threads_cut()},
      {"waits_cut", s.waits_cut()},
      {"steps", StepsJson(report)},
      {"steps_cut", report.steps.cut()},
      {"spans", SpansJson(s)},
      {"loss", LossJson(s)},
      {"findings", ordered_json::array()},
      {"overhead",
       {{"daemon_cpu_ns", s.overhead().daemon_cpu_ns()},
        {"sender_cpu_ns", s.overhead().sender_cpu_ns()},
        {"stored_bytes", s.overhead().stored_bytes()},
        {"daemon_rss_bytes", s.overhead().daemon_rss_bytes()}}},
  };
  return json.dump(2, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace stepscope::cli
