// SPDX-License-Identifier: Apache-2.0
#include "daemon/collector/host/metric_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <ranges>

namespace stepscope {
namespace {

// Processes come and go during a long run and their metrics with them; beyond this many the slots are built anew.
constexpr size_t kMostSlots = 1 << 16;

std::string LaneText(const MetricValue& value) {
  return value.instance.empty() ? std::string(value.name) : fmt::format("{}@{}", value.name, value.instance);
}

}  // namespace

bool MetricRows::Slot::Is(const MetricValue& value) const {
  return lane.a == value.process.pid.value && lane.b == value.process.start_ticks && name == value.name &&
         instance == value.instance;
}

void MetricRows::OpenRuns(const std::map<RunId, std::vector<ProcessKey>>& runs) {
  const auto id_of_open = [](const OpenRun& run) { return run.counters.run; };
  if (!std::ranges::equal(runs | std::views::keys, runs_ | std::views::transform(id_of_open))) {
    runs_.clear();
    for (const auto& [run, processes] : runs) {
      runs_.push_back({Batch::For(TableId::kCounter, run), Batch::For(TableId::kLoss, run), {}, {}});
    }
  }
  runs_of_.clear();
  size_t place = 0;
  for (const auto& [run, processes] : runs) {
    for (const ProcessKey& process : processes) runs_of_.emplace(process, place);
    ++place;
  }
}

void MetricRows::Begin(size_t source, NodeTime time) {
  source_ = &sources_[source];
  source_->cursor = 0;
  time_ = time;
}

void MetricRows::Add(const MetricValue& value) {
  const uint32_t slot = SlotOf(value);
  const bool is_of_node = value.process == ProcessKey{};
  if (is_of_node && value.members.empty()) {
    for (OpenRun& run : runs_) Append(run, slot, value);
    return;
  }
  std::set<size_t> written;
  if (!is_of_node) return AppendToRunsOf(value.process, slot, value, &written);
  for (const ProcessKey& member : value.members) AppendToRunsOf(member, slot, value, &written);
}

void MetricRows::AppendToRunsOf(ProcessKey process, uint32_t slot, const MetricValue& value, std::set<size_t>* written) {
  const auto [begin, end] = runs_of_.equal_range(process);
  for (auto it = begin; it != end; ++it) {
    if (written->insert(it->second).second) Append(runs_[it->second], slot, value);
  }
}

void MetricRows::Append(OpenRun& run, uint32_t slot, const MetricValue& value) {
  if (run.lane_of_slot.size() <= slot) {
    run.lane_of_slot.resize(slots_.size());
    run.name_of_slot.resize(slots_.size());
  }
  uint32_t& lane = run.lane_of_slot[slot];
  if (lane == 0) {
    run.counters.entities.push_back(slots_[slot].lane);
    lane = static_cast<uint32_t>(run.counters.entities.size());
    run.name_of_slot[slot] = run.counters.LocalName(value.name);
  }
  run.counters.Append(lane - 1,
                      {time_.ns, run.name_of_slot[slot], std::bit_cast<int64_t>(value.value), value.scaled ? int64_t{1} : 0});
}

uint32_t MetricRows::SlotOf(const MetricValue& value) {
  std::vector<uint32_t>& order = source_->order;
  const size_t place = source_->cursor++;
  if (place < order.size() && slots_[order[place]].Is(value)) return order[place];
  const uint32_t slot = FindSlot(value);
  if (place < order.size()) {
    order[place] = slot;
  } else {
    order.push_back(slot);
  }
  return slot;
}

uint32_t MetricRows::FindSlot(const MetricValue& value) {
  const auto [it, is_new] = slot_index_.try_emplace({std::string(value.name), std::string(value.instance), value.process},
                                                    static_cast<uint32_t>(slots_.size()));
  if (is_new) {
    slots_.push_back({std::string(value.name),
                      std::string(value.instance),
                      {EntityKind::kMetric, value.process.pid.value, value.process.start_ticks, 0, LaneText(value)}});
  }
  return it->second;
}

void MetricRows::AddSkipped(const SkippedTicks& skipped) {
  for (OpenRun& run : runs_) {
    const uint32_t lane = run.losses.LocalEntity({EntityKind::kMetric, 0, 0, 0, skipped.source});
    run.losses.Append(
        lane, {skipped.from.ns, skipped.to - skipped.from, static_cast<int64_t>(LossStage::kSampler), lane,
               static_cast<int64_t>(LossReason::kTickSkipped), static_cast<int64_t>(TableId::kCounter), skipped.count, 0});
  }
}

std::vector<Batch> MetricRows::Take() {
  std::vector<Batch> batches;
  for (OpenRun& run : runs_) {
    if (run.counters.rows() > 0) batches.push_back(std::move(run.counters));
    if (run.losses.rows() > 0) batches.push_back(std::move(run.losses));
  }
  runs_.clear();
  runs_of_.clear();
  if (slots_.size() > kMostSlots) ForgetOldSlots();
  return batches;
}

void MetricRows::ForgetOldSlots() {
  slots_.clear();
  slot_index_.clear();
  for (Source& source : sources_) source = {};
}

}  // namespace stepscope
