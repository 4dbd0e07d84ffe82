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
constexpr int kMostWaits = 4;  // of one thread or process
constexpr size_t kNameWidth = 48;

std::string RankText(int32_t rank) { return rank < 0 ? "-" : std::to_string(rank); }

std::string Head(const v1::Summary& s) {
  const v1::Job& job = s.job();
  std::string text = fmt::format("job {} ({}, {}){}\n", Printable(job.name()), job.kind(), job.state(),
                                 job.state_reason().empty() ? "" : ": " + Printable(job.state_reason()));
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

std::string PeerText(const v1::WaitPeer& peer, const v1::ThreadSummary& waiter) {
  std::string thread = peer.thread().empty() ? fmt::format("thread {}", peer.tid()) : Printable(peer.thread());
  if (peer.pid() == 0) return fmt::format("{}, not recorded", thread);
  if (peer.pid() == waiter.pid()) return thread;
  // A thread that serves another process says little by its own name.
  return fmt::format("{} of {} {}", thread, Shortened(peer.process(), 24), peer.pid());
}

/// "pt_data_worker of python 4711, in clock_nanosleep".
std::string WaitEndText(const v1::WaitSummary& wait, const v1::ThreadSummary& waiter) {
  if (wait.end() == "others") return "(several)";
  if (!wait.has_peer()) return wait.cause() == "throttled" || wait.cause() == "not recorded" ? "" : wait.end();
  if (!wait.has_root()) return PeerText(wait.peer(), waiter);
  std::string text = PeerText(wait.root(), waiter);
  if (wait.root().tid() != wait.peer().tid()) text = fmt::format("{} ← {}", PeerText(wait.peer(), waiter), text);
  if (!wait.root().doing().empty()) return fmt::format("{}, in {}", text, wait.root().doing());
  return fmt::format("{}, {}", text, wait.end());
}

/// The main thread of each rank and loader worker.
std::string Waits(const v1::Summary& s) {
  TextTable table({">RANK", "WHO", "WAITED FOR", ">TIME", ">TIMES", ">LONGEST", "ENDED BY"});
  bool any = false;
  int shown = 0;
  for (const auto& p : s.processes()) {
    if ((p.role() != "rank" && p.role() != "loader worker") || ++shown > kMostProcesses) continue;
    const auto main = std::find_if(s.threads().begin(), s.threads().end(),
                                   [&](const auto& t) { return t.pid() == p.pid() && t.tid() == p.pid(); });
    if (main == s.threads().end()) continue;
    for (int i = 0; i < std::min(main->waits_size(), kMostWaits); ++i) {
      const auto& w = main->waits(i);
      const std::string what = w.syscall().empty() ? w.cause() : fmt::format("{} ({})", w.cause(), w.syscall());
      // A wait for the GIL that several held is counted once, where it was held longest.
      const std::string times = w.count() == 0 ? "part" : Count(static_cast<int64_t>(w.count()));
      table.Add({RankText(p.rank()), fmt::format("{} {}", p.role(), p.pid()), what, Duration(w.ns()), times, Duration(w.max_ns()),
                 WaitEndText(w, *main)});
      any = true;
    }
  }
  if (!any) return "";
  return fmt::format("\nwhat main threads slept for, and who ended it{}\n", s.waits_cut() ? " (of a part of the window)" : "") +
         table.Render();
}

std::string OccupantText(const v1::OccupantSummary& occupant) {
  if (occupant.name().empty()) return fmt::format("({})", occupant.class_());
  return fmt::format("{} {} ({})", Printable(occupant.name()), occupant.pid(), occupant.class_());
}

/// Of the ranks and loader workers.
std::string Occupants(const v1::Summary& s) {
  TextTable table({">RANK", "WHO WAITED FOR A CPU", "WHO HELD IT", ">TIME"});
  bool any = false;
  int shown = 0;
  for (const auto& p : s.processes()) {
    if ((p.role() != "rank" && p.role() != "loader worker") || ++shown > kMostProcesses) continue;
    for (int i = 0; i < std::min(p.occupants_size(), kMostWaits); ++i) {
      table.Add({RankText(p.rank()), fmt::format("{} {}", p.role(), p.pid()), OccupantText(p.occupants(i)),
                 Duration(p.occupants(i).ns())});
      any = true;
    }
  }
  return any ? "\nwho took the CPU (waits of 20 us and more)\n" + table.Render() : "";
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
  return Head(s) + Steps(s) + Processes(s) + Threads(s) + Occupants(s) + Waits(s) + Spans(s) + Loss(s) + Cost(s);
}

}  // namespace stepscope::cli
