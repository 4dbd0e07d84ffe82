// SPDX-License-Identifier: Apache-2.0
// Totals of a run that every view shows: rows per table and what is missing. Kept by the pipeline, written with the rows.
#pragma once

#include <cstdint>
#include <map>

#include "daemon/jobs/job_table.h"
#include "trace/schema.h"

namespace stepscope {

struct TableTotal {
  uint64_t rows = 0;
  uint64_t stored_bytes = 0;
};
struct RunTotals {
  std::map<TableId, TableTotal> tables;
  std::map<LossKey, LossAmount> loss;
};

class TotalsSource {
 public:
  virtual ~TotalsSource() = default;
  /// Rows accepted so far, in memory or stored. Any thread.
  virtual RunTotals Totals(RunId run) const = 0;
  /// Blocks until everything delivered before the call is stored. Any thread but the pipeline's.
  virtual absl::Status Drain() = 0;
};

}  // namespace stepscope
