// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/clock_registry.h"

#include <fmt/format.h>

#include <mutex>
#include <unordered_map>

#include "daemon/pipeline/clock_map.h"

namespace stepscope {

struct ClockRegistry::Impl {
  std::mutex mu;
  std::unordered_map<ClockId, ClockMap> clocks;
};

ClockRegistry::ClockRegistry() : impl_(std::make_unique<Impl>()) {}
ClockRegistry::~ClockRegistry() = default;

void ClockRegistry::Register(ClockId clock, int64_t offset_ns, ClockRate rate) {
  const std::lock_guard lock(impl_->mu);
  impl_->clocks.insert_or_assign(clock, ClockMap(offset_ns, rate));
}

void ClockRegistry::AddAnchor(ClockId clock, const ClockAnchor& anchor) {
  const std::lock_guard lock(impl_->mu);
  const auto found = impl_->clocks.find(clock);
  if (found != impl_->clocks.end()) found->second.Add(anchor);
}

absl::StatusOr<PlacedTime> ClockRegistry::Place(ClockId clock, SourceTicks ticks) const {
  const std::lock_guard lock(impl_->mu);
  const auto found = impl_->clocks.find(clock);
  if (found == impl_->clocks.end()) {
    return absl::NotFoundError(fmt::format("clock {} is not registered; its session ended", clock.value));
  }
  return found->second.Place(ticks);
}

std::vector<std::optional<PlacedTime>> ClockRegistry::PlaceAll(ClockId clock, std::span<const int64_t> readings) const {
  const std::lock_guard lock(impl_->mu);
  const auto found = impl_->clocks.find(clock);
  if (found == impl_->clocks.end()) return std::vector<std::optional<PlacedTime>>(readings.size());
  return found->second.PlaceAll(readings);
}

void ClockRegistry::Forget(ClockId clock) {
  const std::lock_guard lock(impl_->mu);
  impl_->clocks.erase(clock);
}

}  // namespace stepscope
