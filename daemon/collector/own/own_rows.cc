// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/own/own_rows.h"

#include <bit>

#include "daemon/collector/open_batch.h"
#include "daemon/collector/own/switch_record.h"

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
  Batch& batch = OpenBatch(slices_, TableId::kSchedSlice, thread.run);
  // Nobody has to wake a thread that was runnable all along.
  const WakerKind waker = turn.wait_known ? WakerKind::kNone : WakerKind::kUnknown;
  batch.Append(LaneOf(thread, batch, serial_),
               {turn.on.ns, turn.off - turn.on, turn.wait_ns, turn.cpu, 0, static_cast<int64_t>(waker), kUnknownSyscall, 0,
                StateOf(turn), 0, 0, 0, 0, 0, 0});
  ++rows_;
}

void OwnRows::AddLoss(RunId run, int32_t cpu, uint64_t lost, NodeTime from, NodeTime to) {
  Batch& batch = OpenBatch(losses_, TableId::kLoss, run);
  const uint32_t lane = batch.LocalEntity({EntityKind::kCpu, cpu, 0, 0, {}});
  const auto count = static_cast<int64_t>(lost);
  batch.Append(lane, {from.ns, to - from, static_cast<int64_t>(LossStage::kKernel), lane,
                      static_cast<int64_t>(LossReason::kKernelRingFull), static_cast<int64_t>(TableId::kSchedSlice), count,
                      count * kSwitchRecordBytes});
  ++rows_;
}

void OwnRows::AddSums(const OwnProcess& process, const ThreadSums& sums, NodeTime now) {
  AddCounter(process, kRunningCounter, sums.running_ns, now);
  AddCounter(process, kRunnableCounter, sums.runnable_ns, now);
}

void OwnRows::AddCounter(const OwnProcess& process, const char* name, int64_t value, NodeTime now) {
  Batch& batch = OpenBatch(counters_, TableId::kCounter, process.run);
  const uint32_t lane = batch.LocalEntity({EntityKind::kMetric, process.key.pid.value, process.key.start_ticks, 0, name});
  batch.Append(lane, {now.ns, batch.LocalName(name), std::bit_cast<int64_t>(static_cast<double>(value)), 0});
  ++rows_;
}

std::vector<Batch> OwnRows::Take() {
  std::vector<Batch> batches;
  for (auto* open : {&slices_, &losses_, &counters_}) {
    for (auto& entry : *open) batches.push_back(std::move(entry.second));
    open->clear();
  }
  rows_ = 0;
  ++serial_;
  return batches;
}

}  // namespace stepscope
