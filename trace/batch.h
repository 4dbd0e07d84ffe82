// SPDX-License-Identifier: Apache-2.0
// Batch: the unit that moves. One table, one run, one source, one clock, columns.
//
// Vocabulary
//   lane    the entity that makes rows sequential: the thread for spans and slices, the metric for counters.
//   local   a batch that just left its source carries its own little dictionaries (`names`, `entities`) and columns of kind
//           kName/kEntity, and `lane`, index into them. The pipeline's intern stage turns them into run-wide NameId/EntityId
//           values and clears the dictionaries; from then on `interned` is true.
//   clock   columns of kind kTime hold raw readings of `clock` until the place stage maps them to node time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/time.h"
#include "trace/schema.h"

namespace stepscope {

enum class EntityKind : uint8_t { kNode = 1, kProcess = 2, kThread = 3, kCpu = 4, kRank = 5, kMetric = 6, kDevice = 7, kQueue = 8 };

/// What makes an entity the same entity again. Two keys are equal iff they name the same thing on this node.
///   kProcess  a = host tgid, b = start time (clock ticks since boot, field 22 of /proc/PID/stat)
///   kThread   a = host tgid, b = start time of the process, c = host tid
///   kCpu      a = cpu number          kMetric  a = owner's tgid, b = its start time, text = metric name
///   kNode     nothing                 kRank    a = rank, text = group name
struct EntityKey {
  EntityKind kind = EntityKind::kNode;
  int64_t a = 0;
  int64_t b = 0;
  int64_t c = 0;
  std::string text;
  friend bool operator==(const EntityKey&, const EntityKey&) = default;
  friend auto operator<=>(const EntityKey&, const EntityKey&) = default;
};

/// Which clock the kTime columns of a batch are read from: 0 = node time already, else a session's clock.
using ClockId = Id<struct ClockTag, uint64_t>;

struct Batch {
  TableId table{};
  RunId run;
  ClockId clock;
  bool interned = false;
  std::vector<std::string> names;      ///< local dictionary, empty once interned; index 0 may be any string
  std::vector<EntityKey> entities;     ///< local dictionary, empty once interned
  std::vector<uint32_t> lane;          ///< one per row: index into `entities`, or EntityId value once interned
  std::vector<std::vector<int64_t>> columns;  ///< columns[c][row], as many as the table's spec

  static Batch For(TableId table, RunId run) {
    Batch batch;
    batch.table = table;
    batch.run = run;
    batch.columns.resize(FindTable(table)->columns.size());
    return batch;
  }
  size_t rows() const { return lane.size(); }
  void Reserve(size_t rows) {
    lane.reserve(rows);
    for (auto& column : columns) column.reserve(rows);
  }
  /// Appends one row; `values` has one entry per column of the table.
  void Append(uint32_t row_lane, std::initializer_list<int64_t> values) {
    lane.push_back(row_lane);
    size_t c = 0;
    for (int64_t v : values) columns[c++].push_back(v);
  }
  /// Index of `name` in the local dictionary, added if new. Linear from the back: sources repeat themselves.
  uint32_t LocalName(std::string_view name) {
    for (size_t i = names.size(); i-- > 0;) {
      if (names[i] == name) return static_cast<uint32_t>(i);
    }
    names.emplace_back(name);
    return static_cast<uint32_t>(names.size() - 1);
  }
  uint32_t LocalEntity(const EntityKey& key) {
    for (size_t i = entities.size(); i-- > 0;) {
      if (entities[i] == key) return static_cast<uint32_t>(i);
    }
    entities.push_back(key);
    return static_cast<uint32_t>(entities.size() - 1);
  }
};

}  // namespace stepscope
