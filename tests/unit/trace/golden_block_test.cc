// SPDX-License-Identifier: Apache-2.0
// The blocks of every release stay readable: the committed bytes decode to the rows they were written from. (Encoders may get
// better, so today's bytes need not equal them.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <tuple>

#include "tests/golden/golden_blocks.h"

namespace stepscope {
namespace {

std::string ReadHex(const std::string& path) {
  std::ifstream file(path);
  std::string digits, line, bytes;
  while (file >> line) digits += line;
  for (size_t i = 0; i + 1 < digits.size(); i += 2) bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

using Row = std::pair<uint32_t, std::vector<int64_t>>;

std::vector<Row> SortedRows(const Batch& batch) {
  std::vector<Row> rows(batch.rows());
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].first = batch.lane[i];
    for (const auto& column : batch.columns) rows[i].second.push_back(column[i]);
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST(GoldenBlockTest, EveryGoldenBlockDecodesToItsRows) {
  for (const GoldenBlock& golden : GoldenBlocks()) {
    SCOPED_TRACE(golden.name);
    const auto block = DecodeBlock(ReadHex(std::string(STEPSCOPE_GOLDEN_DIR) + "/" + golden.name + ".hex"));
    ASSERT_TRUE(block.ok()) << block.status();
    EXPECT_EQ(SortedRows(block->batch), SortedRows(golden.batch));
    EXPECT_EQ(block->header.clock_maps, golden.notes.clock_maps);
    for (const LaneNote& note : golden.notes.lanes) {
      EXPECT_TRUE(std::any_of(block->lanes.begin(), block->lanes.end(), [&](const BlockLane& lane) {
        return std::tie(lane.lane, lane.clock_error_ns, lane.lossy) == std::tie(note.lane, note.clock_error_ns, note.lossy);
      }));
    }
  }
}

}  // namespace
}  // namespace stepscope
