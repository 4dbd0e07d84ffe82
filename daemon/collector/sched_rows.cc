// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/sched_rows.h"

#include <fmt/format.h>

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
  Batch& batch = Of(TableId::kSchedSlice, thread.run);
  Add(batch, LaneOf(thread, batch),
      {static_cast<int64_t>(slice.on_ns), static_cast<int64_t>(slice.off_ns - slice.on_ns), static_cast<int64_t>(slice.wait_ns),
       slice.cpu, slice.waker, slice.waker_kind, slice.syscall, static_cast<int64_t>(slice.arg0), StateOf(slice), slice.seq,
       stepscope_slice_exec_ns(&slice), slice.rq_wait_ns, slice.stolen_ns, slice.min_faults, slice.maj_faults});
}

void SchedRows::AddWait(const TrackedThread& thread, const stepscope_wait& wait, std::span<const Occupant> occupants) {
  Batch& batch = Of(TableId::kSchedWait, thread.run);
  const uint32_t lane = batch.LocalEntity(thread.key);
  const auto start_ns = static_cast<int64_t>(wait.start_ns);
  const auto dur_ns = static_cast<int64_t>(wait.time_ns - wait.start_ns);
  const auto add = [&](const Occupant& occupant, uint64_t part_ns) {
    if (part_ns == 0) return;
    Add(batch, lane,
        {start_ns, dur_ns, occupant.tid, occupant.tgid, static_cast<int64_t>(part_ns), static_cast<int64_t>(occupant.klass),
         batch.LocalName(occupant.name), wait.cpu});
  };
  for (size_t i = 0; i < occupants.size(); ++i) add(occupants[i], wait.parts[i].ns);
  add({OccupantClass::kOthers, 0, 0, {}}, wait.others_ns);
  add({OccupantClass::kUnknown, -1, 0, {}}, wait.unknown_ns);
}

void SchedRows::AddHistogram(RunId run, NodeTime time, const stepscope_sched_histogram& base,
                             const stepscope_sched_histogram& now) {
  const auto add = [&](std::string_view metric, std::string_view instance, uint64_t value) {
    if (value == 0) return;
    std::string text(metric);
    if (!instance.empty()) text += fmt::format("@{}", instance);
    AddCounter(run, {EntityKind::kMetric, 0, 0, 0, std::move(text)}, metric, static_cast<double>(value), time);
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

}  // namespace stepscope
