// SPDX-License-Identifier: Apache-2.0
#include "daemon/away_time.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "storage/keys.h"
#include "trace/block.h"

namespace stepscope {
namespace {

constexpr std::string_view kKind = "setting";
constexpr std::string_view kId = "sign_of_life";
constexpr size_t kTimeBytes = 8;
/// How old a row may be when it is delivered: a drain of the kernel's ring or an agent's (250 ms), and some for a loaded machine.
constexpr int64_t kDeliveryNs = 350 * kNsPerMillisecond;
/// How old the last sign of life on the disk may be when the power goes: every 500 ms a seal is stored and synced, and some for a
/// loaded machine.
constexpr int64_t kSyncNs = 650 * kNsPerMillisecond;

}  // namespace

AwayTime::AwayTime(const Store* store, const Clock* clock, std::string boot_id)
    : store_(store), clock_(clock), boot_id_(std::move(boot_id)) {
  const auto stored = store_->GetMeta(kKind, kId);
  const std::string sign = stored.ok() ? stored->value_or("") : "";
  if (sign.size() < kTimeBytes) return;
  last_alive_.ns = static_cast<int64_t>(ReadBigEndian(sign, 0, kTimeBytes));
  last_boot_id_ = sign.substr(kTimeBytes);
}

MetaRow AwayTime::Sign(NodeTime last_delivery) const {
  std::string value;
  AppendBigEndian(value, static_cast<uint64_t>(last_delivery.ns), kTimeBytes);
  return {std::string(kKind), std::string(kId), value + boot_id_};
}

/// Latest end of a stored turn that ended at `begin` or later; `begin` if there is none.
NodeTime AwayTime::LastTurn(RunId run, NodeTime begin) const {
  NodeTime last = begin;
  const auto look = [&](const BlockKey&, std::string_view bytes) {
    if (const auto header = PeekHeader(bytes); header.ok()) last = std::max(last, header->max_time);
    return true;
  };
  // A store that cannot be read here cannot be read anywhere; then the interval is only longer than it need be.
  store_->ForEachBlock(run, TableId::kSchedSlice, begin, {std::numeric_limits<int64_t>::max()}, look).IgnoreError();
  return last;
}

AwayTime::Missing AwayTime::Missed(const JobSnapshot& job) const {
  const bool same_boot = job.boot_id == boot_id_;
  const NodeTime alive = job.boot_id == last_boot_id_ ? std::max(last_alive_, job.start_node) : job.start_node;
  const NodeTime end = same_boot ? clock_->Node() : alive + kSyncNs;
  NodeTime begin = std::max(job.start_node, alive + -kDeliveryNs);
  if (same_boot) begin = std::min(LastTurn(job.run, begin), end);
  const LossStage stage = same_boot ? LossStage::kKernel : LossStage::kStore;
  Missing missing{Batch::For(TableId::kLoss, job.run), end};
  const uint32_t node = missing.loss.LocalEntity({EntityKind::kNode, 0, 0, 0, ""});
  missing.loss.Append(
      node, {begin.ns, end - begin, static_cast<int64_t>(stage), node, static_cast<int64_t>(LossReason::kDaemonAway), 0, -1, -1});
  return missing;
}

}  // namespace stepscope
