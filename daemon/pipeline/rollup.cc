// SPDX-License-Identifier: Apache-2.0
#include "daemon/pipeline/rollup.h"

#include <algorithm>

#include "base/time.h"
#include "stepscope/store/v1/store.pb.h"

namespace stepscope {
namespace {

constexpr int64_t kSecondsPerMinute = 60;
constexpr size_t kMinutesInMemory = 3;
/// A row longer than this spreads over too many seconds to be believed; only its last day is rolled up.
constexpr int64_t kLongestNs = 86'400 * kNsPerSecond;
/// In the order of Rollup::Series.
constexpr std::array<const char*, 5> kSeriesNames = {"running_ns", "runnable_ns", "switches", "steps", "lost"};

}  // namespace

Rollup::Minute& Rollup::Get(uint32_t minute) {
  const auto [it, inserted] = minutes_.try_emplace(minute);
  if (inserted) {
    store::v1::MinuteRollup stored;
    if (stored.ParseFromString(load_(minute))) {
      for (const auto& series : stored.series()) {
        auto& values = it->second.series[{series.name(), series.entity()}];
        for (int i = 0; i < series.values_size() && i < kSecondsPerMinute; ++i) values[i] = series.values(i);
      }
    }
  }
  return it->second;
}

Rollup::Seconds& Rollup::SecondsOf(Minute& minute, SeriesKey key) {
  const auto [known, is_new] = minute.known.try_emplace(uint64_t{static_cast<uint32_t>(key.series)} << 32 | key.entity);
  if (is_new) known->second = &minute.series[{kSeriesNames[static_cast<size_t>(key.series)], key.entity}];
  return *known->second;
}

void Rollup::AddValue(int64_t second, SeriesKey key, int64_t value) {
  if (second < 0 || value == 0) return;
  Minute& minute = Get(static_cast<uint32_t>(second / kSecondsPerMinute));
  minute.dirty = true;
  SecondsOf(minute, key)[static_cast<size_t>(second % kSecondsPerMinute)] += value;
}

void Rollup::AddInterval(int64_t start_ns, int64_t end_ns, SeriesKey key) {
  start_ns = std::max({start_ns, end_ns - kLongestNs, int64_t{0}});
  while (start_ns < end_ns) {
    const int64_t second = start_ns / kNsPerSecond;
    const int64_t stop = std::min(end_ns, (second + 1) * kNsPerSecond);
    AddValue(second, key, stop - start_ns);
    start_ns = stop;
  }
}

void Rollup::Add(const Batch& batch, const std::function<EntityId(uint32_t)>& process_of) {
  const auto& c = batch.columns;
  for (size_t row = 0; row < batch.rows(); ++row) {
    if (batch.table == TableId::kSchedSlice) {
      const uint32_t process = process_of(batch.lane[row]).value;
      const int64_t on = c[slice_column::kOn][row];
      const int64_t off = on + c[slice_column::kDur][row];
      AddInterval(on, off, {Series::kRunning, process});
      AddInterval(on - c[slice_column::kWait][row], on, {Series::kRunnable, process});
      AddValue(off / kNsPerSecond, {Series::kSwitches, process}, 1);
    } else if (batch.table == TableId::kSpan && c[span_column::kDomain][row] == static_cast<int64_t>(SpanDomain::kStep)) {
      const int64_t end = c[span_column::kStart][row] + c[span_column::kDur][row];
      AddValue(end / kNsPerSecond, {Series::kSteps, process_of(batch.lane[row]).value}, 1);
    } else if (batch.table == TableId::kLoss) {
      const int64_t end = c[loss_column::kStart][row] + c[loss_column::kDur][row];
      AddValue(end / kNsPerSecond, {Series::kLost, 0}, std::max<int64_t>(c[loss_column::kCount][row], 1));
    }
  }
}

std::vector<RollupRow> Rollup::Dirty() const {
  std::vector<RollupRow> rows;
  for (const auto& [number, minute] : minutes_) {
    if (!minute.dirty) continue;
    store::v1::MinuteRollup value;
    for (const auto& [key, values] : minute.series) {
      auto* series = value.add_series();
      series->set_name(key.first);
      series->set_entity(key.second);
      series->mutable_values()->Add(values.begin(), values.end());
    }
    rows.push_back({run_, number, value.SerializeAsString()});
  }
  return rows;
}

void Rollup::MarkStored() {
  for (auto& [number, minute] : minutes_) minute.dirty = false;
  while (minutes_.size() > kMinutesInMemory) minutes_.erase(minutes_.begin());
}

}  // namespace stepscope
