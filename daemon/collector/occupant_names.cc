// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/occupant_names.h"

namespace stepscope {
namespace {

constexpr int64_t kTrustedNs = 10 * kNsPerSecond;
constexpr size_t kMostKnown = 65'536;
constexpr int32_t kKernelThreads = 2;  // kthreadd, parent of all of them

}  // namespace

Occupant OccupantNames::Resolve(uint32_t tid, uint32_t tgid, RunId run, uint32_t uid, NodeTime now) {
  const auto id = static_cast<int32_t>(tid);
  const auto process_id = static_cast<int32_t>(tgid);
  if (tid == 0) return {OccupantClass::kIdle, 0, 0, {}};
  if (const TrackedThread* thread = tasks_->Thread(id); thread != nullptr && thread->tgid == process_id) {
    if (thread->run == run) return {OccupantClass::kSameJob, id, process_id, thread->comm};
    if (LookUp(tid, tgid, now).uid != uid) return {OccupantClass::kOtherJob, 0, 0, {}};
    return {OccupantClass::kSameUser, id, process_id, thread->comm};
  }
  const Known& known = LookUp(tid, tgid, now);
  if (known.is_gone) return {OccupantClass::kGone, id, process_id, {}};
  if (known.is_kernel) return {OccupantClass::kKernel, id, process_id, known.name};
  if (known.uid != uid) return {OccupantClass::kOtherUser, 0, 0, {}};
  return {OccupantClass::kSameUser, id, process_id, known.name};
}

const OccupantNames::Known& OccupantNames::LookUp(uint32_t tid, uint32_t tgid, NodeTime now) {
  if (known_.size() >= kMostKnown) known_.clear();
  const auto [it, is_new] = known_.try_emplace(tid);
  Known& known = it->second;
  if (!is_new && known.tgid == tgid && now - known.looked_up < kTrustedNs) return known;
  const auto id = static_cast<int32_t>(tgid);
  const bool was_known = !is_new && known.tgid == tgid;
  known.looked_up = now;
  std::optional<ProcStat> stat = proc_->ThreadStat(id, static_cast<int32_t>(tid));
  // One that was known and is gone now keeps its name: the wait is of when it lived.
  if (was_known && !stat) return known;
  if (was_known && stat->start_ticks == known.start_ticks) {
    known.name = std::move(stat->comm);
    return known;
  }
  const auto uid = proc_->Uid(id);
  if (was_known && !uid) return known;
  known = {tgid, now, 0, !stat || !uid, false, uid.value_or(0), ""};
  if (!stat) return known;
  known.start_ticks = stat->start_ticks;
  known.name = std::move(stat->comm);
  known.is_kernel = stat->parent.value == kKernelThreads || id == kKernelThreads;
  return known;
}

}  // namespace stepscope
