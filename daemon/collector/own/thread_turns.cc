// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/own/thread_turns.h"

#include <algorithm>

namespace stepscope {

void ThreadTurns::In(NodeTime time, int32_t cpu) {
  if (is_on_) runnable_since_.reset();  // its out was lost, so how it left is unknown
  is_on_ = true;
  cpu_ = cpu;
  on_ = time;
  is_new_ = is_new_ && !seen_any_;
  seen_any_ = true;
}

std::optional<Turn> ThreadTurns::End(NodeTime time, int32_t cpu) {
  const bool began_before = !is_on_ && !seen_any_ && !is_new_;
  const bool is_known = began_before || (is_on_ && cpu == cpu_);
  std::optional<Turn> turn;
  if (is_known) {
    turn = Turn{};
    turn->on = began_before ? std::min(covered_since_, time) : on_;
    turn->off = time;
    turn->cpu = cpu;
    turn->began_before = began_before;
    turn->is_first = is_new_;
    if (runnable_since_ && !began_before) {
      turn->wait_known = true;
      turn->wait_ns = std::max<int64_t>(0, on_ - *runnable_since_);
    }
  }
  is_on_ = false;
  is_new_ = false;
  seen_any_ = true;
  runnable_since_.reset();
  return turn;
}

std::optional<Turn> ThreadTurns::Out(NodeTime time, int32_t cpu, bool is_runnable) {
  std::optional<Turn> turn = End(time, cpu);
  if (turn) turn->ends_runnable = is_runnable;
  if (is_runnable) runnable_since_ = time;
  return turn;
}

std::optional<Turn> ThreadTurns::Exit(NodeTime time, int32_t cpu) {
  if (!is_on_ && (seen_any_ || is_new_)) return std::nullopt;
  std::optional<Turn> turn = End(time, cpu);
  if (turn) turn->ends_dead = true;
  return turn;
}

void ThreadTurns::Lost(int32_t cpu) {
  if (is_on_ && cpu_ == cpu) is_on_ = false;
  seen_any_ = true;
  runnable_since_.reset();
}

}  // namespace stepscope
