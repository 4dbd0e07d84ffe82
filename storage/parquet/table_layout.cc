// SPDX-License-Identifier: Apache-2.0
#include "storage/parquet/table_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace stepscope {
namespace {

ParquetType TypeOf(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::kName:
    case ColumnKind::kEntity:
      return ParquetType::kString;
    case ColumnKind::kReal:
      return ParquetType::kReal;
    default:
      return ParquetType::kInt64;
  }
}

}  // namespace

std::vector<LayoutColumn> LayoutOf(const TableSpec& table) {
  std::vector<LayoutColumn> layout = {
      {"time", ParquetType::kTimeMicros, ColumnSource::kTime},
      {"node_time_ns", ParquetType::kInt64, ColumnSource::kOwn, 0},
      {"wall_time_ns", ParquetType::kInt64, ColumnSource::kWallTime},
      {"node", ParquetType::kString, ColumnSource::kNode},
      {"run", ParquetType::kUint32, ColumnSource::kRun},
      {"rank", ParquetType::kInt32, ColumnSource::kRank},
      {"pid", ParquetType::kInt32, ColumnSource::kPid},
      {"tid", ParquetType::kInt32, ColumnSource::kTid},
      {"lane", ParquetType::kUint32, ColumnSource::kLane},
      {"process", ParquetType::kString, ColumnSource::kProcess},
      {"thread", ParquetType::kString, ColumnSource::kThread},
      {"lane_name", ParquetType::kString, ColumnSource::kLaneName},
  };
  const size_t shared = layout.size();
  for (size_t c = 0; c < table.columns.size(); ++c) {
    std::string name(table.columns[c].name);
    const bool taken = std::any_of(layout.begin(), layout.begin() + static_cast<ptrdiff_t>(shared),
                                   [&](const LayoutColumn& column) { return column.name == name; });
    if (taken) name = fmt::format("{}_{}", table.name, name);
    layout.push_back({std::move(name), TypeOf(table.columns[c].kind), ColumnSource::kOwn, c});
  }
  return layout;
}

}  // namespace stepscope
