// SPDX-License-Identifier: Apache-2.0
// EvictedRows: what retention removed from one run, as rows of the loss table. Rows of one table are merged by hours, and by
// twice as many hours whenever there are too many, so their number is bounded however long the run is; counts stay exact.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "daemon/jobs/job_table.h"
#include "trace/batch.h"

namespace stepscope {

/// Whether rows had been uploaded when they were removed here.
enum class Uploaded { kNo, kYes };

/// Rows of one table, from the first one's start to the last one's end.
struct EvictedStretch {
  NodeTime begin;
  NodeTime end;
  uint64_t rows = 0;
  uint64_t bytes = 0;
  void Merge(const EvictedStretch& other);
};

class EvictedRows {
 public:
  static constexpr size_t kMostPerTable = 64;

  explicit EvictedRows(RunId run) : run_(run) {}
  /// Rows of an earlier process, as Rows() gave them.
  void Load(const Batch& loss, Uploaded uploaded);
  void Add(TableId table, Uploaded uploaded, const EvictedStretch& stretch);
  /// Interned rows of the loss table; empty when there are none.
  Batch Rows(Uploaded uploaded) const;

 private:
  struct Stretches {
    int64_t hours = 1;                              ///< what one of them covers at most
    std::map<int64_t, EvictedStretch> by_position;  ///< begin / hours
  };
  static void Place(Stretches& stretches, const EvictedStretch& stretch);
  static void Widen(Stretches& stretches);

  const RunId run_;
  std::map<std::pair<Uploaded, TableId>, Stretches> tables_;
};

}  // namespace stepscope
