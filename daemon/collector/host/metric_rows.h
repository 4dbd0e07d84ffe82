// SPDX-License-Identifier: Apache-2.0
// Turns values of metric sources into counter rows: one batch per run and tick, handed to the pipeline by the sampler.
//
//   lane    {kMetric, a = pid or 0, b = its start ticks or 0, text = name or "name@instance"}
//   name    the metric's name, without the instance
//   runs    a node's value goes to every run being written, a process's to its own runs, one with members to theirs
//
// A source says the same names in the same order at each tick, so a value's place (Slot) is found by comparing it with the one
// that stood there last time; only a source that says something new is looked up.
//
// Thread rule: the sampler thread.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "daemon/collector/host/metric_source.h"
#include "trace/batch.h"

namespace stepscope {

/// Ticks of one source that were not taken.
struct SkippedTicks {
  std::string source;
  NodeTime from;
  NodeTime to;
  int64_t count = 0;
};

class MetricRows final : public MetricSink {
 public:
  explicit MetricRows(size_t sources) : sources_(sources) {}

  /// What is added from now on is written in these runs; their processes say whose is whose. Rows that were not taken stay if
  /// the runs are the same.
  void OpenRuns(const std::map<RunId, std::vector<ProcessKey>>& runs);
  /// The next values come from `source` and are of `time`.
  void Begin(size_t source, NodeTime time);
  void Add(const MetricValue& value) override;
  void AddSkipped(const SkippedTicks& skipped);
  /// All rows since the last time.
  std::vector<Batch> Take();

 private:
  struct Slot {
    std::string name;
    std::string instance;
    EntityKey lane;
    bool Is(const MetricValue& value) const;
  };
  struct Source {
    std::vector<uint32_t> order;  ///< slots as last said
    size_t cursor = 0;
  };
  struct OpenRun {
    Batch counters;
    Batch losses;
    std::vector<uint32_t> lane_of_slot;  ///< index + 1 in counters.entities; 0 = not yet
    std::vector<uint32_t> name_of_slot;
  };

  uint32_t SlotOf(const MetricValue& value);
  uint32_t FindSlot(const MetricValue& value);
  void Append(OpenRun& run, uint32_t slot, const MetricValue& value);
  void AppendToRunsOf(ProcessKey process, uint32_t slot, const MetricValue& value, std::set<size_t>* written);
  void ForgetOldSlots();

  std::vector<Slot> slots_;
  std::map<std::tuple<std::string, std::string, ProcessKey>, uint32_t, std::less<>> slot_index_;
  std::vector<Source> sources_;
  Source* source_ = nullptr;
  NodeTime time_;
  std::vector<OpenRun> runs_;
  std::multimap<ProcessKey, size_t> runs_of_;
};

}  // namespace stepscope
