// SPDX-License-Identifier: Apache-2.0
// GetSeries: one value a second, from the minute roll-ups; minutes that have none yet are rolled up from their rows here, by the
// same code. Counters come from their rows: the last value of each second, NaN where there is none.
#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "base/valid_utf8.h"
#include "daemon/pipeline/rollup.h"
#include "daemon/rpc/job_proto.h"
#include "daemon/rpc/query_handlers.h"
#include "daemon/rpc/row_scan.h"
#include "stepscope/store/v1/store.pb.h"

namespace stepscope {
namespace {

constexpr int64_t kSecondsPerMinute = 60;
constexpr size_t kMostValues = 350'000;  // 8 bytes each, below kMaxAnswerBytes

/// How a roll-up is called in an answer, and in which unit a second of it is given.
struct Builtin {
  const char* rollup;
  const char* name;
  const char* unit;
  double scale;
};
constexpr Builtin kBuiltins[] = {
    {"running_ns", "running", "cpus", 1e-9}, {"runnable_ns", "runnable", "threads", 1e-9},
    {"switches", "switches", "1/s", 1},      {"steps", "steps", "1/s", 1},
    {"lost", "loss", "records", 1},
};

const Builtin* FindBuiltin(const std::string& rollup) {
  for (const Builtin& builtin : kBuiltins) {
    if (rollup == builtin.rollup) return &builtin;
  }
  return nullptr;
}

bool IsBuiltinName(const std::string& name) {
  return std::any_of(std::begin(kBuiltins), std::end(kBuiltins), [&](const Builtin& b) { return name == b.name; });
}

/// The unit that a counter's name ends in, before _total: "cpu.steal_ns_total" → "ns".
std::string UnitOf(std::string_view name) {
  constexpr std::pair<std::string_view, const char*> kUnits[] = {{"ns", "ns"}, {"bytes", "bytes"}, {"percent", "%"},
                                                                 {"w", "W"},   {"celsius", "°C"},  {"mhz", "MHz"}};
  if (name.ends_with("_total")) name.remove_suffix(std::string_view("_total").size());
  const std::string_view last = name.substr(name.rfind('_') + 1);
  for (const auto& [suffix, unit] : kUnits) {
    if (last == suffix && last.size() < name.size()) return unit;
  }
  return "";
}

/// The series of an answer while they are being filled; seconds [first, first + count).
class SeriesSet {
 public:
  SeriesSet(int64_t first_second, int64_t seconds, std::set<std::string> names)
      : first_(first_second), seconds_(seconds), names_(std::move(names)) {}

  bool Wants(const std::string& name) const { return names_.empty() || names_.contains(name); }
  bool WantsBuiltin() const { return names_.empty() || std::any_of(names_.begin(), names_.end(), IsBuiltinName); }
  bool WantsCounter() const { return names_.empty() || !std::all_of(names_.begin(), names_.end(), IsBuiltinName); }
  bool TooBig() const { return too_big_; }
  int64_t first_second() const { return first_; }
  int64_t end_second() const { return first_ + seconds_; }

  void Set(const std::string& name, const std::string& unit, uint32_t entity, int64_t second, double value, double empty) {
    if (second < first_ || second >= first_ + seconds_) return;
    const auto [it, is_new] = series_.try_emplace({name, entity});
    if (is_new) {
      too_big_ = too_big_ || (series_.size() * static_cast<size_t>(seconds_)) > kMostValues;
      it->second.unit = unit;
      if (!too_big_) it->second.values.assign(static_cast<size_t>(seconds_), empty);
    }
    if (!too_big_) it->second.values[static_cast<size_t>(second - first_)] = value;
  }
  void Fill(const LaneFacts& lanes, google::protobuf::RepeatedPtrField<v1::Series>* out) const {
    for (const auto& [key, series] : series_) {
      v1::Series* message = out->Add();
      message->set_name(key.first);
      message->set_entity(lanes.Label(key.second));
      message->set_unit(series.unit);
      message->set_start_ns(first_ * kNsPerSecond);
      message->set_step_ns(kNsPerSecond);
      message->mutable_values()->Add(series.values.begin(), series.values.end());
    }
  }

 private:
  struct One {
    std::string unit;
    std::vector<double> values;
  };
  const int64_t first_;
  const int64_t seconds_;
  const std::set<std::string> names_;
  std::map<std::pair<std::string, uint32_t>, One> series_;
  bool too_big_ = false;
};

void AddMinute(uint32_t minute, std::string_view value, SeriesSet* set) {
  store::v1::MinuteRollup rollup;
  if (!rollup.ParseFromArray(value.data(), static_cast<int>(value.size()))) return;
  for (const auto& series : rollup.series()) {
    const Builtin* builtin = FindBuiltin(series.name());
    if (builtin == nullptr || !set->Wants(builtin->name)) continue;
    for (int i = 0; i < series.values_size() && i < kSecondsPerMinute; ++i) {
      set->Set(builtin->name, builtin->unit, series.entity(), int64_t{minute} * kSecondsPerMinute + i,
               static_cast<double>(series.values(i)) * builtin->scale, 0.0);
    }
  }
}

/// Entities of processes, by what their threads' lanes know of them.
std::map<ProcessKey, uint32_t> ProcessLanes(const LaneFacts& lanes) {
  std::map<ProcessKey, uint32_t> processes;
  for (const auto& [lane, fact] : lanes.all()) {
    if (fact.kind == EntityKind::kProcess) processes[fact.process] = lane;
  }
  return processes;
}

/// Rolls up the rows of the minutes from `first_minute` on.
absl::Status AddFromRows(const RpcParts& parts, const JobSnapshot& job, const LaneFacts& lanes, TimeRange range,
                         uint32_t first_minute, QueryBudget* budget, Holes* holes, SeriesSet* set) {
  const std::map<ProcessKey, uint32_t> processes = ProcessLanes(lanes);
  const auto process_of = [&](uint32_t lane) {
    const auto it = processes.find(lanes.Of(lane).process);
    return EntityId{it == processes.end() ? 0 : it->second};
  };
  Rollup rollup(job.run, [](uint32_t) { return std::string(); });
  for (const TableId table : {TableId::kSchedSlice, TableId::kSpan, TableId::kLoss}) {
    STEPSCOPE_RETURN_IF_ERROR(
        ScanRows(parts, job, table, range, budget, holes, [&](const Batch& batch) { rollup.Add(batch, process_of); }));
  }
  for (const RollupRow& row : rollup.Dirty()) {
    if (row.minute >= first_minute) AddMinute(row.minute, row.value, set);
  }
  return absl::OkStatus();
}

absl::Status AddBuiltins(const RpcParts& parts, const JobSnapshot& job, const LaneFacts& lanes, TimeRange range,
                         QueryBudget* budget, Holes* holes, SeriesSet* set) {
  const auto first_minute = static_cast<uint32_t>(set->first_second() / kSecondsPerMinute);
  const auto last_minute = static_cast<uint32_t>((set->end_second() - 1) / kSecondsPerMinute);
  uint32_t uncovered = first_minute;
  STEPSCOPE_RETURN_IF_ERROR(
      parts.store->ForEachRollup(job.run, first_minute, last_minute, [&](uint32_t minute, std::string_view value) {
        AddMinute(minute, value, set);
        uncovered = minute + 1;
        return budget->Spend(1);
      }));
  const NodeTime from{std::max(range.begin.ns, int64_t{uncovered} * kSecondsPerMinute * kNsPerSecond)};
  if (uncovered > last_minute || from >= range.end) return absl::OkStatus();
  return AddFromRows(parts, job, lanes, {from, range.end}, uncovered, budget, holes, set);
}

absl::Status AddCounters(const RpcParts& parts, const JobSnapshot& job, TimeRange range, QueryBudget* budget, Holes* holes,
                         SeriesSet* set) {
  std::map<int64_t, std::string> names;
  std::map<std::tuple<int64_t, uint32_t, int64_t>, int64_t> newest;  // (name, lane, second) -> time of the value taken
  return ScanRows(parts, job, TableId::kCounter, range, budget, holes, [&](const Batch& batch) {
    const auto& c = batch.columns;
    for (size_t row = 0; row < batch.rows() && !set->TooBig(); ++row) {
      const int64_t id = c[counter_column::kName][row];
      const auto [name, is_new] = names.try_emplace(id);
      if (is_new) name->second = ValidUtf8(parts.dictionary->Name(job.run, NameId{static_cast<uint32_t>(id)}));
      if (!set->Wants(name->second)) continue;
      const int64_t time = c[counter_column::kTime][row];
      int64_t& taken = newest[{id, batch.lane[row], time / kNsPerSecond}];
      if (time < taken) continue;
      taken = time;
      set->Set(name->second, UnitOf(name->second), batch.lane[row], time / kNsPerSecond,
               std::bit_cast<double>(c[counter_column::kValue][row]), std::numeric_limits<double>::quiet_NaN());
    }
  });
}

}  // namespace

absl::Status QueryHandlers::GetSeries(Call& call, const v1::GetSeriesRequest& request, v1::GetSeriesResponse* response) const {
  STEPSCOPE_ASSIGN_OR_RETURN(const JobSnapshot job, access_->JobOf(call.peer, request.job()));
  STEPSCOPE_ASSIGN_OR_RETURN(const QueryRange range, RangeOf(job, request.begin_ns(), request.end_ns(), *parts_.clock));
  const int64_t first = range.shown.begin.ns / kNsPerSecond;
  const int64_t seconds = (range.shown.end.ns + kNsPerSecond - 1) / kNsPerSecond - first;
  const LaneFacts lanes(*parts_.dictionary, *parts_.jobs, job.run);
  SeriesSet set(first, std::max<int64_t>(seconds, 1), {request.names().begin(), request.names().end()});
  if (set.WantsBuiltin()) {
    STEPSCOPE_RETURN_IF_ERROR(AddBuiltins(parts_, job, lanes, range.shown, &call.budget, response->mutable_holes(), &set));
  }
  if (set.WantsCounter()) {
    STEPSCOPE_RETURN_IF_ERROR(AddCounters(parts_, job, range.shown, &call.budget, response->mutable_holes(), &set));
  }
  STEPSCOPE_RETURN_IF_ERROR(FillHoles(parts_, job, lanes, range.shown, &call.budget, response->mutable_holes()));
  if (set.TooBig() || call.budget.exhausted()) {
    return absl::ResourceExhaustedError(
        fmt::format("the series of job {} over {} s are more than one answer holds; give names, or a shorter begin_ns … end_ns",
                    job.name, seconds));
  }
  set.Fill(lanes, response->mutable_series());
  response->set_final(IsOver(job));
  return absl::OkStatus();
}

}  // namespace stepscope
