// SPDX-License-Identifier: Apache-2.0
// Rollup: per-second series of one run, kept a minute at a time: running_ns, runnable_ns and switches of each process, steps
// finished, records lost. Long views are drawn from these instead of rows.
//
// Thread rule: owned by the pipeline (its mutex guards it).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/ids.h"
#include "storage/store.h"
#include "trace/batch.h"

namespace stepscope {

class Rollup {
 public:
  /// `load` gives the stored value of a minute ("" = none): late rows are added to it, not written over it.
  Rollup(RunId run, std::function<std::string(uint32_t minute)> load) : run_(run), load_(std::move(load)) {}

  /// Adds the rows of an interned batch. `process_of` maps a lane to the entity its series belong to.
  void Add(const Batch& batch, const std::function<EntityId(uint32_t lane)>& process_of);

  /// Minutes changed since the last call, whole.
  std::vector<RollupRow> Dirty() const;
  /// The rows of Dirty() are stored; minutes well behind the newest leave memory.
  void MarkStored();

 private:
  enum class Series : uint32_t { kRunning, kRunnable, kSwitches, kSteps, kLost };
  struct SeriesKey {
    Series series;
    uint32_t entity;
  };
  using Seconds = std::array<int64_t, 60>;
  struct Minute {
    bool dirty = false;
    std::map<std::pair<std::string, uint32_t>, Seconds> series;  ///< by name and entity; names of other releases are kept
    absl::flat_hash_map<uint64_t, Seconds*> known;               ///< of `series`, by SeriesKey: asked for with every row
  };

  void AddValue(int64_t second, SeriesKey key, int64_t value);
  void AddInterval(int64_t start_ns, int64_t end_ns, SeriesKey key);
  Minute& Get(uint32_t minute);
  static Seconds& SecondsOf(Minute& minute, SeriesKey key);

  const RunId run_;
  const std::function<std::string(uint32_t)> load_;
  std::map<uint32_t, Minute> minutes_;
};

}  // namespace stepscope
