// SPDX-License-Identifier: Apache-2.0
#include "daemon/live/open_turns.h"

#include <algorithm>

#include "base/valid_utf8.h"

namespace stepscope {
namespace {

constexpr int64_t kNewsNs = kNsPerSecond;          // shorter is ordinary
constexpr int64_t kOldNewsNs = 30 * kNsPerSecond;  // a sleeper of that age is a pool's
constexpr size_t kMost = 8;

const char* DoingText(const OpenTurn& turn) {
  if (turn.doing == OpenTurn::Doing::kRunning) return "running";
  if (turn.doing == OpenTurn::Doing::kRunnable) return "runnable";
  switch (turn.state) {
    case SliceState::kBlockedIo:
      return "blocked io";
    case SliceState::kStopped:
      return "stopped";
    case SliceState::kTraced:
      return "traced";
    case SliceState::kThrottled:
      return "throttled";
    default:
      return "blocked";
  }
}

struct Candidate {
  const OpenTurn* turn;
  bool is_main;
  int64_t for_ns;
  /// Main thread, then running, then the rest; within each the longest first.
  auto Order() const { return std::tuple(!is_main, turn->doing != OpenTurn::Doing::kRunning, -for_ns, turn->thread.c); }
};

}  // namespace

void FillOpenTurns(const std::vector<OpenTurn>& turns, const JobSample& sample, RunId run, NodeTime now,
                   v1::RankUtilization* row) {
  std::vector<Candidate> candidates;
  for (const OpenTurn& turn : turns) {
    if (turn.run != run) continue;
    const ProcessKey process{Pid{static_cast<int32_t>(turn.thread.a)}, turn.thread.b};
    const bool is_rank = process.pid.value == row->pid();
    const auto known = sample.processes.find(process);
    const bool works_for_it = row->rank() >= 0 && known != sample.processes.end() && known->second.rank == row->rank();
    if (!is_rank && !works_for_it) continue;
    const bool is_main = is_rank && turn.thread.a == turn.thread.c;
    const int64_t for_ns = turn.since.ns == 0 ? 0 : std::max<int64_t>(0, now - turn.since);
    const bool is_news = for_ns >= kNewsNs && (turn.doing != OpenTurn::Doing::kOff || for_ns < kOldNewsNs);
    if (is_main || is_news) candidates.push_back({&turn, is_main, for_ns});
  }
  std::sort(candidates.begin(), candidates.end(), [](const auto& a, const auto& b) { return a.Order() < b.Order(); });
  if (candidates.size() > kMost) candidates.resize(kMost);
  for (const Candidate& candidate : candidates) {
    v1::OpenTurn* out = row->add_now();
    out->set_tid(static_cast<int32_t>(candidate.turn->thread.c));
    out->set_name(ValidUtf8(candidate.turn->comm));
    out->set_doing(DoingText(*candidate.turn));
    out->set_for_ns(candidate.for_ns);
    out->set_syscall(candidate.turn->syscall);
    out->set_arg0(candidate.turn->arg0);
    out->set_cpu(candidate.turn->cpu);
  }
}

}  // namespace stepscope
