// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/own/own_rows.h"

namespace stepscope {
namespace {

constexpr int64_t kUnknownSyscall = -1;

int64_t StateOf(const Turn& turn) {
  SliceState state = SliceState::kBlocked;
  if (turn.ends_runnable) state = SliceState::kRunnable;
  if (turn.ends_dead) state = SliceState::kDead;
  int64_t bits = static_cast<int64_t>(state) | kSliceOwnLevel;
  if (!turn.wait_known) bits |= kSliceWaitUnknown;
  if (turn.began_before) bits |= kSliceHealed;
  if (turn.is_first) bits |= kSliceFirst;
  return bits;
}

}  // namespace

void OwnRows::AddTurn(OwnThread& thread, const Turn& turn) {
  Batch& batch = Of(TableId::kSchedSlice, thread.run);
  // Nobody has to wake a thread that was runnable all along.
  const WakerKind waker = turn.wait_known ? WakerKind::kNone : WakerKind::kUnknown;
  Add(batch, LaneOf(thread, batch),
      {turn.on.ns, turn.off - turn.on, turn.wait_ns, turn.cpu, 0, static_cast<int64_t>(waker), kUnknownSyscall, 0, StateOf(turn),
       0, 0, 0, 0, 0, 0});
}

void OwnRows::AddSums(const OwnProcess& process, const ThreadSums& sums, NodeTime now) {
  const auto add = [&](const char* name, int64_t value) {
    const EntityKey metric{EntityKind::kMetric, process.key.pid.value, process.key.start_ticks, 0, name};
    AddCounter(process.run, metric, name, static_cast<double>(value), now);
  };
  add(kRunningCounter, sums.running_ns);
  add(kRunnableCounter, sums.runnable_ns);
}

}  // namespace stepscope
