// SPDX-License-Identifier: Apache-2.0
#include "storage/parquet/table_layout.h"

#include <gtest/gtest.h>

#include <set>

namespace stepscope {
namespace {

const LayoutColumn* Find(const std::vector<LayoutColumn>& layout, std::string_view name) {
  for (const LayoutColumn& column : layout) {
    if (column.name == name) return &column;
  }
  return nullptr;
}

TEST(TableLayout, NamesAreUniqueInEveryTable) {
  for (const TableSpec& table : AllTables()) {
    std::set<std::string> names;
    for (const LayoutColumn& column : LayoutOf(table))
      EXPECT_TRUE(names.insert(column.name).second) << table.name << " " << column.name;
  }
}

TEST(TableLayout, EveryTableSaysWhenAndWho) {
  for (const TableSpec& table : AllTables()) {
    const std::vector<LayoutColumn> layout = LayoutOf(table);
    EXPECT_EQ(layout[0].name, "time");
    EXPECT_EQ(layout[0].type, ParquetType::kTimeMicros);
    for (const char* name :
         {"node_time_ns", "wall_time_ns", "node", "run", "rank", "pid", "tid", "lane", "process", "thread", "lane_name"}) {
      EXPECT_NE(Find(layout, name), nullptr) << table.name << " " << name;
    }
  }
}

TEST(TableLayout, AColumnThatSharesANameIsPrefixedByItsTable) {
  EXPECT_NE(Find(LayoutOf(*FindTable(TableId::kDeviceOp)), "device_op_node"), nullptr);
  EXPECT_NE(Find(LayoutOf(*FindTable(TableId::kCollective)), "collective_rank"), nullptr);
}

TEST(TableLayout, NamesAndEntitiesAreTexts) {
  EXPECT_EQ(Find(LayoutOf(*FindTable(TableId::kSpan)), "name")->type, ParquetType::kString);
  EXPECT_EQ(Find(LayoutOf(*FindTable(TableId::kLoss)), "source")->type, ParquetType::kString);
  EXPECT_EQ(Find(LayoutOf(*FindTable(TableId::kCounter)), "value")->type, ParquetType::kReal);
}

}  // namespace
}  // namespace stepscope
