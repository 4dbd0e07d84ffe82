// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/sched_rows.h"

namespace stepscope {
namespace {

int64_t StateOf(const stepscope_slice& slice) {
  int64_t state = slice.state;
  if (slice.flags & STEPSCOPE_SLICE_HEALED) state |= kSliceHealed;
  if (slice.flags & STEPSCOPE_SLICE_FIRST) state |= kSliceFirst;
  return state;
}

Batch& OpenBatch(std::map<RunId, Batch>& open, TableId table, RunId run) {
  auto it = open.find(run);
  if (it == open.end()) it = open.emplace(run, Batch::For(table, run)).first;
  return it->second;
}

}  // namespace

void SchedRows::AddSlice(TrackedThread& thread, const stepscope_slice& slice) {
  Batch& batch = OpenBatch(slices_, TableId::kSchedSlice, thread.run);
  if (thread.batch_serial != serial_) {
    thread.batch_serial = serial_;
    thread.batch_lane = static_cast<uint32_t>(batch.entities.size());
    batch.entities.push_back(thread.key);
  }
  batch.Append(thread.batch_lane, {static_cast<int64_t>(slice.on_ns), static_cast<int64_t>(slice.off_ns - slice.on_ns),
                                   static_cast<int64_t>(slice.wait_ns), slice.cpu, slice.waker, slice.waker_kind, slice.syscall,
                                   static_cast<int64_t>(slice.arg0), StateOf(slice), slice.seq, stepscope_slice_exec_ns(&slice),
                                   slice.rq_wait_ns, slice.stolen_ns, slice.min_faults, slice.maj_faults});
  ++rows_;
}

void SchedRows::AddWait(const TrackedThread& thread, const stepscope_wait& wait, std::span<const Occupant> occupants) {
  Batch& batch = OpenBatch(waits_, TableId::kSchedWait, thread.run);
  const uint32_t lane = batch.LocalEntity(thread.key);
  const auto start_ns = static_cast<int64_t>(wait.start_ns);
  const auto dur_ns = static_cast<int64_t>(wait.time_ns - wait.start_ns);
  const auto add = [&](const Occupant& occupant, uint64_t part_ns) {
    if (part_ns == 0) return;
    batch.Append(lane, {start_ns, dur_ns, occupant.tid, occupant.tgid, static_cast<int64_t>(part_ns),
                        static_cast<int64_t>(occupant.klass), batch.LocalName(occupant.name), wait.cpu});
    ++rows_;
  };
  for (size_t i = 0; i < occupants.size(); ++i) add(occupants[i], wait.parts[i].ns);
  add({OccupantClass::kOthers, 0, 0, {}}, wait.others_ns);
  add({OccupantClass::kUnknown, -1, 0, {}}, wait.unknown_ns);
}

void SchedRows::AddLoss(const KernelLoss& loss) {
  Batch& batch = OpenBatch(losses_, TableId::kLoss, loss.run);
  uint32_t cpu = batch.LocalEntity({EntityKind::kCpu, loss.cpu, 0, 0, {}});
  batch.Append(cpu,
               {loss.from.ns, loss.to - loss.from, static_cast<int64_t>(LossStage::kKernel), cpu,
                static_cast<int64_t>(LossReason::kKernelRingFull), static_cast<int64_t>(loss.table), loss.count, loss.bytes});
  ++rows_;
}

std::vector<Batch> SchedRows::Take() {
  std::vector<Batch> batches;
  for (auto* open : {&slices_, &waits_, &losses_}) {
    for (auto& entry : *open) batches.push_back(std::move(entry.second));
    open->clear();
  }
  rows_ = 0;
  ++serial_;
  return batches;
}

}  // namespace stepscope
