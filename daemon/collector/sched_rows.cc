// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/sched_rows.h"

#include <fmt/format.h>

#include <bit>

#include "daemon/collector/open_batch.h"

namespace stepscope {
namespace {

int64_t StateOf(const stepscope_slice& slice) {
  int64_t state = slice.state;
  if (slice.flags & STEPSCOPE_SLICE_HEALED) state |= kSliceHealed;
  if (slice.flags & STEPSCOPE_SLICE_FIRST) state |= kSliceFirst;
  return state;
}

}  // namespace

void SchedRows::AddSlice(TrackedThread& thread, const stepscope_slice& slice) {
  Batch& batch = OpenBatch(slices_, TableId::kSchedSlice, thread.run);
  batch.Append(
      LaneOf(thread, batch, serial_),
      {static_cast<int64_t>(slice.on_ns), static_cast<int64_t>(slice.off_ns - slice.on_ns), static_cast<int64_t>(slice.wait_ns),
       slice.cpu, slice.waker, slice.waker_kind, slice.syscall, static_cast<int64_t>(slice.arg0), StateOf(slice), slice.seq,
       stepscope_slice_exec_ns(&slice), slice.rq_wait_ns, slice.stolen_ns, slice.min_faults, slice.maj_faults});
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

void SchedRows::AddHistogram(RunId run, NodeTime time, const stepscope_sched_histogram& base,
                             const stepscope_sched_histogram& now) {
  Batch& batch = OpenBatch(counters_, TableId::kCounter, run);
  const auto add = [&](std::string_view metric, std::string_view instance, uint64_t value) {
    if (value == 0) return;
    std::string text(metric);
    if (!instance.empty()) text += fmt::format("@{}", instance);
    batch.Append(batch.LocalEntity({EntityKind::kMetric, 0, 0, 0, std::move(text)}),
                 {time.ns, batch.LocalName(metric), std::bit_cast<int64_t>(static_cast<double>(value)), 0});
    ++rows_;
  };
  for (uint32_t i = 0; i < STEPSCOPE_HISTOGRAM_BUCKETS; ++i) {
    const bool is_last = i + 1 == STEPSCOPE_HISTOGRAM_BUCKETS;
    const std::string below = is_last ? "more" : fmt::format("lt_{}us", uint64_t{1} << i);
    add("sched.waits_total", below, now.waits[i] - base.waits[i]);
    add("sched.turns_total", below, now.turns[i] - base.turns[i]);
  }
  add("sched.wait_ns_total", "", now.wait_ns - base.wait_ns);
  add("sched.run_ns_total", "", now.run_ns - base.run_ns);
}

std::vector<Batch> SchedRows::Take() {
  std::vector<Batch> batches;
  for (auto* open : {&slices_, &waits_, &counters_, &losses_}) {
    for (auto& entry : *open) batches.push_back(std::move(entry.second));
    open->clear();
  }
  rows_ = 0;
  ++serial_;
  return batches;
}

}  // namespace stepscope
