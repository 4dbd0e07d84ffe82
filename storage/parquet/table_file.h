// SPDX-License-Identifier: Apache-2.0
// TableFile: blocks of one table in, one Parquet file out, in row groups of up to 1 Mi rows in lane order.
//
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/ids.h"
#include "storage/parquet/dataset.h"
#include "storage/parquet/table_layout.h"
#include "storage/parquet/wall_clock_map.h"
#include "trace/block.h"

namespace stepscope {

constexpr size_t kRowGroupRows = size_t{1} << 20;

/// Who a lane is. Numbers are 0 (rank -1) and texts empty where a lane has none.
struct LaneIdentity {
  int32_t rank = -1;
  int32_t pid = 0;
  int32_t tid = 0;
  std::string process;
  std::string thread;
  std::string name;  ///< what a person would call it: the thread, the metric, "cpu 3"
};

/// Texts behind the small integers of a run.
class RowTexts {
 public:
  virtual ~RowTexts() = default;
  virtual std::string Name(NameId id) const = 0;
  virtual LaneIdentity Lane(EntityId id) const = 0;
};

class TableFile {
 public:
  struct Context {
    std::string node;  ///< host name
    RunId run;
    const RowTexts* texts;
    const WallClockMap* wall;
    size_t row_group_rows = kRowGroupRows;
  };
  static absl::StatusOr<std::unique_ptr<TableFile>> Create(Dataset& dataset, const std::string& path, const TableSpec& table,
                                                           const Context& context);
  absl::Status Add(DecodedBlock block);
  /// The file exists from here on; a TableFile destroyed before leaves nothing behind.
  absl::StatusOr<FileTotals> Close();
  uint64_t rows() const { return rows_; }

 private:
  TableFile(const TableSpec& table, const Context& context) : context_(context), layout_(LayoutOf(table)), table_(table) {}
  absl::Status FlushRowGroup();

  const Context context_;
  const std::vector<LayoutColumn> layout_;
  const TableSpec& table_;
  std::unique_ptr<Dataset::File> file_;
  std::vector<DecodedBlock> pending_;
  size_t pending_rows_ = 0;
  uint64_t rows_ = 0;
};

}  // namespace stepscope
