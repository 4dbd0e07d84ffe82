// SPDX-License-Identifier: Apache-2.0
// What blocks and writers rely on: ids are unique, column 0 is the start, the position enums match the specs.
#include "trace/schema.h"

#include <gtest/gtest.h>

#include <set>

namespace stepscope {
namespace {

TEST(SchemaTest, IdsAndNamesAreUniqueAndStartComesFirst) {
  std::set<std::string_view> names;
  for (const TableSpec& table : AllTables()) {
    SCOPED_TRACE(table.name);
    EXPECT_TRUE(names.insert(table.name).second);
    EXPECT_EQ(FindTable(table.id), &table);
    EXPECT_EQ(FindTable(table.name), &table);
    EXPECT_EQ(table.columns[0].kind, ColumnKind::kTime);
    std::set<uint16_t> ids;
    std::set<std::string_view> columns;
    for (const ColumnSpec& column : table.columns) {
      EXPECT_TRUE(ids.insert(column.id).second) << column.name;
      EXPECT_TRUE(columns.insert(column.name).second) << column.name;
    }
  }
}

void ExpectColumn(TableId table, size_t position, std::string_view name) {
  EXPECT_EQ(FindTable(table)->Find(name), position) << FindTable(table)->name << "." << name;
}

TEST(SchemaTest, ColumnPositionsMatchTheSpecs) {
  ExpectColumn(TableId::kSpan, span_column::kStart, "start_ns");
  ExpectColumn(TableId::kSpan, span_column::kName, "name");
  ExpectColumn(TableId::kSpan, span_column::kHasNumber, "has_number");
  ExpectColumn(TableId::kSpan, span_column::kFlags, "flags");
  ExpectColumn(TableId::kSchedSlice, slice_column::kWait, "wait_ns");
  ExpectColumn(TableId::kSchedSlice, slice_column::kWakerKind, "waker_kind");
  ExpectColumn(TableId::kSchedSlice, slice_column::kState, "state");
  ExpectColumn(TableId::kSchedSlice, slice_column::kExec, "exec_ns");
  ExpectColumn(TableId::kSchedSlice, slice_column::kMajFaults, "maj_faults");
  ExpectColumn(TableId::kCounter, counter_column::kScaled, "scaled");
  ExpectColumn(TableId::kClockSample, clock_column::kError, "error_ns");
  ExpectColumn(TableId::kLoss, loss_column::kSource, "source");
  ExpectColumn(TableId::kLoss, loss_column::kBytes, "bytes");
}

}  // namespace
}  // namespace stepscope
