// SPDX-License-Identifier: Apache-2.0
// wait_tool: the analysis of waits as a program, for tests/e2e/test_waits.py: rows a daemon recorded in, episodes out, so that a
// test can hold them against what the recorded program knows of itself.
//
//   wait_tool < ROWS
//
// Lines of ROWS, fields separated by blanks:
//   T lane tid process gil_begin gil_end                                     a thread
//   S lane on dur wait waker waker_kind syscall arg0 state seq               a row of sched_slice
// Prints one JSON array: each wait with its thread's tid, its stretches by holder (GIL) and its chain of wakers.
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "analysis/lock_holder.h"
#include "analysis/waker_chain.h"

namespace stepscope {
namespace {

using nlohmann::json;

struct Input {
  std::map<uint32_t, ThreadFact> facts;
  Batch rows = Batch::For(TableId::kSchedSlice, RunId{1});
};

Input ReadInput(std::istream& in) {
  Input input;
  for (std::string line; std::getline(in, line);) {
    std::istringstream fields(line);
    char kind = 0;
    uint32_t lane = 0;
    fields >> kind >> lane;
    if (kind == 'T') {
      ThreadFact& fact = input.facts[lane];
      fields >> fact.tid.value >> fact.process >> fact.gil.begin >> fact.gil.end;
    } else if (kind == 'S') {
      int64_t on, dur, wait, waker, waker_kind, syscall, arg0, state, seq;
      fields >> on >> dur >> wait >> waker >> waker_kind >> syscall >> arg0 >> state >> seq;
      input.rows.Append(lane, {on, dur, wait, 0, waker, waker_kind, syscall, arg0, state, seq, dur, wait, 0, 0, 0});
    }
  }
  return input;
}

json HoldsOf(const RunHistory& history, const LockHolders& holders, const ThreadHistory& thread, const WaitEpisode& episode) {
  json out = json::array();
  for (size_t i = episode.first_gap; i <= episode.last_gap; ++i) {
    const Gap& gap = thread.gaps[i];
    if (!IsAsleep(gap.cause)) continue;
    for (const Hold& hold : holders.Of(thread.lane, gap.off, gap.ready)) {
      const int32_t tid = hold.holder == 0 ? 0 : history.threads().at(hold.holder).fact.tid.value;
      out.push_back({{"begin", hold.begin.ns}, {"end", hold.end.ns}, {"tid", tid}});
    }
  }
  return out;
}

json ChainOf(const RunHistory& history, const ThreadHistory& thread, const WaitEpisode& episode) {
  const WakerChain chain = FollowWakers(history, thread, episode);
  json hops = json::array();
  for (const ChainHop& hop : chain.hops) {
    hops.push_back({{"tid", history.threads().at(hop.lane).fact.tid.value},
                    {"cause", hop.asleep ? WaitCauseText(hop.cause) : "busy"},
                    {"syscall", hop.asleep ? SystemCallName(hop.syscall, ThisMachine()) : ""}});
  }
  return {{"hops", hops}, {"end", ChainEndText(chain.end)}};
}

void Print(const RunHistory& history) {
  json out = json::array();
  std::map<int64_t, LockHolders> holders;
  for (const auto& [lane, thread] : history.threads()) {
    const auto of_process = holders.try_emplace(thread.fact.process, history.OfProcess(thread.fact.process)).first;
    for (const WaitEpisode& episode : thread.episodes) {
      json wait = {{"tid", thread.fact.tid.value},
                   {"begin", episode.begin.ns},
                   {"end", episode.end.ns},
                   {"asleep", episode.asleep_ns},
                   {"cause", WaitCauseText(episode.cause)},
                   {"syscall", SystemCallName(episode.syscall, ThisMachine())},
                   {"sleeps", episode.sleeps},
                   {"timeouts", episode.timeouts},
                   {"chain", ChainOf(history, thread, episode)}};
      if (episode.cause == WaitCause::kGil) wait["holds"] = HoldsOf(history, of_process->second, thread, episode);
      out.push_back(std::move(wait));
    }
  }
  std::cout << out.dump() << "\n";
}

}  // namespace
}  // namespace stepscope

int main() {
  using namespace stepscope;
  const Input input = ReadInput(std::cin);
  ThreadTurns turns;
  turns.Add(input.rows, {NodeTime{INT64_MIN}, NodeTime{INT64_MAX}});
  turns.Sort();
  Print(RunHistory(
      turns,
      [&](uint32_t lane) {
        const auto found = input.facts.find(lane);
        return found == input.facts.end() ? ThreadFact{} : found->second;
      },
      ThisMachine()));
}
