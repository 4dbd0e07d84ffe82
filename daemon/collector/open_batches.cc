// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/open_batches.h"

#include <bit>

namespace stepscope {

Batch& OpenBatches::Of(TableId table, RunId run) {
  auto it = open_.find({table, run});
  if (it == open_.end()) {
    it = open_.emplace(std::pair(table, run), Batch::For(table, run)).first;
    if (const auto before = last_rows_.find({table, run}); before != last_rows_.end()) it->second.Reserve(before->second);
  }
  return it->second;
}

void OpenBatches::Add(Batch& batch, uint32_t lane, std::initializer_list<int64_t> row) {
  batch.Append(lane, row);
  ++rows_;
}

void OpenBatches::AddLoss(const KernelLoss& loss) {
  Batch& batch = Of(TableId::kLoss, loss.run);
  const uint32_t cpu = batch.LocalEntity({EntityKind::kCpu, loss.cpu, 0, 0, {}});
  Add(batch, cpu,
      {loss.from.ns, loss.to - loss.from, static_cast<int64_t>(LossStage::kKernel), cpu,
       static_cast<int64_t>(LossReason::kKernelRingFull), static_cast<int64_t>(loss.table), loss.count, loss.bytes});
}

void OpenBatches::AddCounter(RunId run, const EntityKey& metric, std::string_view name, double value, NodeTime now) {
  Batch& batch = Of(TableId::kCounter, run);
  Add(batch, batch.LocalEntity(metric), {now.ns, batch.LocalName(name), std::bit_cast<int64_t>(value), 0});
}

std::vector<Batch> OpenBatches::Take() {
  std::vector<Batch> batches;
  batches.reserve(open_.size());
  last_rows_.clear();
  for (auto& [place, batch] : open_) {
    last_rows_.emplace(place, batch.rows() + batch.rows() / 4);
    batches.push_back(std::move(batch));
  }
  open_.clear();
  rows_ = 0;
  ++serial_;
  return batches;
}

}  // namespace stepscope
