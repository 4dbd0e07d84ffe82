// SPDX-License-Identifier: Apache-2.0
// ThreadLife: a thread's life told in order (it runs, it sleeps in a call until somebody wakes it), and RecordedRun, which makes
// sched_slice rows of several lives and builds the histories the analysis of waits works on. System call numbers are x86-64's.
#pragma once

#include <memory>
#include <vector>

#include "analysis/run_history.h"

namespace stepscope {

namespace call {
constexpr int16_t kRead = 0, kPoll = 7, kPread = 17, kRecvfrom = 45, kWait4 = 61, kFsync = 74, kFutex = 202,
                  kClockNanosleep = 230, kEpollWait = 232;
}
constexpr AddressRange kTestGil{0x1000, 0x1000 + 208};
constexpr int64_t kUs = 1'000;
constexpr int64_t kMs = 1'000'000;

struct Wake {
  WakerKind kind = WakerKind::kUnknown;
  int32_t tid = 0;
};
inline Wake ByTimer() { return {WakerKind::kTimer, 0}; }
inline Wake ByThread(int32_t tid) { return {WakerKind::kTask, tid}; }

class ThreadLife {
 public:
  ThreadLife(int32_t tid, int64_t start_ns, int64_t process = 1) : tid_(tid), process_(process), now_(start_ns) {}

  ThreadLife& Runs(int64_t ns) {
    Turn turn;
    turn.on.ns = now_;
    turn.off.ns = now_ += ns;
    turn.wait_ns = wait_ns_;
    turn.waker.value = wake_.tid;
    turn.waker_kind = wake_.kind;
    turn.seq = seq_++;
    turns_.push_back(turn);
    wait_ns_ = 0;
    return *this;
  }
  /// Ends the turn told last; the next one begins after the sleep and `runnable_ns` more.
  ThreadLife& Sleeps(int16_t syscall, uint64_t arg0, int64_t ns, Wake wake, int64_t runnable_ns = 0,
                     SliceState state = SliceState::kBlocked) {
    turns_.back().syscall = syscall;
    turns_.back().arg0 = arg0;
    turns_.back().state = state;
    now_ += ns + runnable_ns;
    wait_ns_ = runnable_ns;
    wake_ = wake;
    return *this;
  }
  ThreadLife& WaitsForGil(int64_t ns, Wake wake, uint64_t word = kTestGil.begin + 40) {
    return Sleeps(call::kFutex, word, ns, wake);
  }
  ThreadLife& IsPreempted(int64_t ns, SliceState state = SliceState::kPreempted) {
    return Sleeps(-1, 0, 0, {WakerKind::kNone, 0}, ns, state);
  }
  ThreadLife& LosesRows(uint32_t rows) {
    seq_ += rows;
    return *this;
  }
  int64_t now() const { return now_; }
  int32_t tid() const { return tid_; }
  int64_t process() const { return process_; }
  const std::vector<Turn>& turns() const { return turns_; }

 private:
  int32_t tid_;
  int64_t process_;
  int64_t now_;
  int64_t wait_ns_ = 0;
  Wake wake_;
  uint32_t seq_ = 1;
  std::vector<Turn> turns_;
};

inline Batch RowsOf(const std::vector<ThreadLife>& lives) {
  Batch batch = Batch::For(TableId::kSchedSlice, RunId{1});
  for (const ThreadLife& life : lives) {
    for (const Turn& t : life.turns()) {
      batch.Append(static_cast<uint32_t>(life.tid()),
                   {t.on.ns, t.off - t.on, t.wait_ns, 0, t.waker.value, static_cast<int64_t>(t.waker_kind), t.syscall,
                    static_cast<int64_t>(t.arg0), static_cast<int64_t>(t.state), t.seq, t.off - t.on, t.wait_ns, 0, 0, 0});
    }
  }
  return batch;
}

/// Lanes are tids.
struct RecordedRun {
  explicit RecordedRun(const std::vector<ThreadLife>& lives) {
    std::map<uint32_t, ThreadFact> facts;
    for (const ThreadLife& life : lives) {
      facts[static_cast<uint32_t>(life.tid())] = {Tid{life.tid()}, life.process(), kTestGil};
    }
    turns.Add(RowsOf(lives), {NodeTime{INT64_MIN}, NodeTime{INT64_MAX}});
    turns.Sort();
    history = std::make_unique<RunHistory>(turns, [&](uint32_t lane) { return facts.at(lane); }, Machine::kX86);
  }
  const ThreadHistory& Of(int32_t tid) const { return history->threads().at(static_cast<uint32_t>(tid)); }

  ThreadTurns turns;
  std::unique_ptr<RunHistory> history;
};

}  // namespace stepscope
