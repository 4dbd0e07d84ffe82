// SPDX-License-Identifier: Apache-2.0
// Which columns a table has in Parquet (docs/formats/parquet.md): times, the lane's identity, then the table's own columns.
#pragma once

#include <string>
#include <vector>

#include "storage/parquet/dataset_module.h"
#include "trace/schema.h"

namespace stepscope {

/// Where a Parquet column's values come from.
enum class ColumnSource {
  kTime,      ///< wall time in µs
  kWallTime,  ///< wall time in ns
  kOwn,       ///< a column of the table as it is; `own` says which
  kNode,
  kRun,
  kRank,
  kPid,
  kTid,
  kLane,
  kProcess,
  kThread,
  kLaneName,
};

struct LayoutColumn {
  std::string name;
  ParquetType type;
  ColumnSource source;
  size_t own = 0;
};

std::vector<LayoutColumn> LayoutOf(const TableSpec& table);

}  // namespace stepscope
