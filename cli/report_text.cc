// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>

#include "cli/report.h"
#include "cli/text_table.h"

namespace stepscope::cli {
namespace {

constexpr int kMostThreads = 12;
constexpr int kMostProcesses = 12;
constexpr int kMostSpans = 12;
constexpr size_t kNameWidth = 48;

std::string RankText(int32_t rank) { return rank < 0 ? "-" : std::to_string(rank); }

std::string Head(const v1::Summary& s) {
  const v1::Job& job = s.job();
  std::string text = fmt::format("job {} ({}, {}){}\n", Printable(job.name()), job.kind(), job.state(),
                                 job.state_reason().empty() ? "" : ": " + job.state_reason());
  if (!job.command().empty()) text += fmt::format("  command  {}\n", Printable(job.command()));
  text += fmt::format("  window   {}{}, {} ranks, {} processes\n", Duration(s.end_ns() - s.begin_ns()),
                      s.final() ? "" : " so far", job.ranks_size(), s.processes_size());
  return text;
}

std::string Steps(const v1::Summary& s) {
  if (s.steps().empty()) return "";
  TextTable table({">RANK", ">STEPS", ">MEDIAN", ">FASTEST", ">SLOWEST", ">DATA LOADING"});
  for (const auto& step : s.steps()) {
    const double share = step.total_ns() == 0 ? 0 : static_cast<double>(step.loader_ns()) / static_cast<double>(step.total_ns());
    table.Add({RankText(step.rank()), Count(static_cast<int64_t>(step.count())), Duration(step.median_ns()),
               Duration(step.min_ns()), Duration(step.max_ns()), Percent(share)});
  }
  return "\nsteps\n" + table.Render();
}

std::string Processes(const v1::Summary& s) {
  if (s.processes().empty()) return "";
  TextTable table({">PID", ">RANK", "ROLE", "NAME", ">THREADS", ">ON CPU", ">WAITED FOR A CPU", ">TURNS"});
  for (int i = 0; i < std::min(s.processes_size(), kMostProcesses); ++i) {
    const auto& p = s.processes(i);
    table.Add({std::to_string(p.pid()), RankText(p.rank()), p.role(), Shortened(p.name(), kNameWidth),
               std::to_string(p.threads()), Duration(p.running_ns()), Duration(p.runnable_ns()),
               Count(static_cast<int64_t>(p.slices()))});
  }
  std::string text = "\nprocesses\n" + table.Render();
  if (s.processes_size() > kMostProcesses) text += fmt::format("  … and {} more\n", s.processes_size() - kMostProcesses);
  return text;
}

std::string Threads(const v1::Summary& s) {
  if (s.threads().empty()) return "";
  TextTable table(
      {">TID", ">RANK", "THREAD", ">ON CPU", ">WAITED FOR A CPU", ">LONGEST WAIT", ">ASLEEP", ">PREEMPTED", ">HOLES"});
  for (int i = 0; i < std::min(s.threads_size(), kMostThreads); ++i) {
    const auto& t = s.threads(i);
    table.Add({std::to_string(t.tid()), RankText(t.rank()), t.name(), Duration(t.running_ns()), Duration(t.runnable_ns()),
               Duration(t.max_wait_ns()), Duration(t.sleeping_ns()), Count(static_cast<int64_t>(t.preempted())),
               Count(static_cast<int64_t>(t.seq_holes()))});
  }
  std::string text = "\nbusiest threads\n" + table.Render();
  if (s.threads_size() > kMostThreads) {
    text += fmt::format("  … and {} more (--format json has them)\n", s.threads_size() - kMostThreads);
  }
  return text;
}

std::string Spans(const v1::Summary& s) {
  if (s.spans().empty()) return "";
  TextTable table({"SPAN", "KIND", ">RANK", ">COUNT", ">TOTAL", ">MEAN", ">LONGEST"});
  for (int i = 0; i < std::min(s.spans_size(), kMostSpans); ++i) {
    const auto& span = s.spans(i);
    const int64_t count = std::max<int64_t>(static_cast<int64_t>(span.count()), 1);
    table.Add({span.name(), span.domain(), RankText(span.rank()), Count(static_cast<int64_t>(span.count())),
               Duration(span.total_ns()), Duration(span.total_ns() / count), Duration(span.max_ns())});
  }
  return "\nspans\n" + table.Render();
}

std::string Loss(const v1::Summary& s) {
  if (s.loss().empty()) return "\nloss 0: nothing is known to be missing\n";
  TextTable table({"LOST AT", "WHY", "TABLE", ">ROWS"});
  for (const auto& loss : s.loss()) table.Add({loss.stage(), loss.reason(), loss.table(), Count(loss.count())});
  return "\nloss: numbers above that cover these holes are lower bounds\n" + table.Render();
}

std::string Cost(const v1::Summary& s) {
  const auto& cost = s.overhead();
  return fmt::format("\nwhat it cost: daemon {} CPU, agents {} CPU, {} stored, daemon memory {}\n",
                     Duration(cost.daemon_cpu_ns()), Duration(cost.sender_cpu_ns()), Bytes(cost.stored_bytes()),
                     Bytes(cost.daemon_rss_bytes()));
}

}  // namespace

std::string RenderText(const Report& report) {
  const v1::Summary& s = report.summary;
  return Head(s) + Steps(s) + Processes(s) + Threads(s) + Spans(s) + Loss(s) + Cost(s);
}

}  // namespace stepscope::cli
