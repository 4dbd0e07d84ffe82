// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/inner_tids.h"

#include <limits>

namespace stepscope {

void InnerTids::Began(ProcessKey process, int32_t inner_tid, int32_t host_tid) {
  const std::lock_guard lock(mu_);
  ForgetPast();
  hosts_[{process, inner_tid}] = host_tid;
  alive_[{process, host_tid}] = inner_tid;
}

void InnerTids::Ended(ProcessKey process, int32_t host_tid) {
  const std::lock_guard lock(mu_);
  if (const auto alive = alive_.find({process, host_tid}); alive != alive_.end()) End(alive);
}

void InnerTids::Ended(ProcessKey process) {
  const std::lock_guard lock(mu_);
  auto thread = alive_.lower_bound({process, std::numeric_limits<int32_t>::min()});
  while (thread != alive_.end() && thread->first.first == process) End(thread++);
}

void InnerTids::End(std::map<Thread, int32_t>::iterator alive) {
  const auto& [process, host_tid] = alive->first;
  past_.push_back({clock_->Node(), {process, alive->second}, host_tid});
  alive_.erase(alive);
}

void InnerTids::ForgetPast() {
  while (!past_.empty() && clock_->Node() - past_.front().since > kKeptNs) {
    const auto known = hosts_.find(past_.front().inner);
    if (known != hosts_.end() && known->second == past_.front().host_tid) hosts_.erase(known);
    past_.pop_front();
  }
}

std::optional<int32_t> InnerTids::Host(ProcessKey process, int32_t inner_tid) const {
  const std::lock_guard lock(mu_);
  const auto known = hosts_.find({process, inner_tid});
  if (known == hosts_.end()) return std::nullopt;
  return known->second;
}

}  // namespace stepscope
