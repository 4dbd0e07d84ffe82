// SPDX-License-Identifier: Apache-2.0
// The rows behind tests/golden/block_*.hex. Each takes other ways through the encoder; together they take all of them.
#pragma once

#include <bit>
#include <limits>
#include <string>
#include <vector>

#include "trace/block.h"

namespace stepscope {

struct GoldenBlock {
  std::string name;
  Batch batch;
  BlockNotes notes;
};

inline Batch GoldenBatch(TableId table) {
  Batch batch = Batch::For(table, {7});
  batch.interned = true;
  return batch;
}

/// The worked example of docs/formats/block.md: three spans on two threads.
inline GoldenBlock GoldenExample() {
  Batch batch = GoldenBatch(TableId::kSpan);
  batch.Append(5, {1'000'000, 500, 2, 1, 12, 1, 0, 0, 0});
  batch.Append(3, {1'000'200, 40, 4, 0, 0, 0, 0, 0, 0});
  batch.Append(5, {1'000'500, 700, 2, 1, 13, 1, 0, 0, 0});
  return {"block_example", std::move(batch), {.clock_maps = {1}, .lanes = {{5, 250, false}}}};
}

/// 2,000 turns of 7 threads, interleaved: deltas, references to other columns, dictionaries of futex addresses.
inline GoldenBlock GoldenSlices() {
  Batch batch = GoldenBatch(TableId::kSchedSlice);
  for (int64_t i = 0; i < 2000; ++i) {
    const int64_t dur = 1000 + i * 7919 % 30'011, wait = i * 104'729 % 5003;
    batch.Append(static_cast<uint32_t>(100 + i % 7),
                 {50'000'000'000 + i * 60'013 + wait, dur, wait, i % 7, i % 3 == 0 ? 0 : 41'000 + i % 5, i % 3 == 0 ? 2 : 1,
                  i % 4 == 0 ? -1 : 202, i % 4 == 0 ? 0 : 0x7F12'3456'0000 + i % 11 * 64, i % 4 == 0 ? 3 : 0, 1'000'000 + i / 7,
                  dur - i % 150, wait + i % 90, 0, 0, 0});
  }
  return {"block_sched_slice", std::move(batch), {.clock_maps = {}, .lanes = {{103, 12'345, true}}}};
}

/// Doubles, and a row out of order.
inline GoldenBlock GoldenCounters() {
  Batch batch = GoldenBatch(TableId::kCounter);
  for (int64_t i = 0; i < 300; ++i) {
    batch.Append(static_cast<uint32_t>(1 + i % 2),
                 {(i == 250 ? 3 : i) * 1'000'000, 9, std::bit_cast<int64_t>(static_cast<double>(i) * 0.25), 0});
  }
  return {"block_counter", std::move(batch), {}};
}

/// The ends of the number line.
inline GoldenBlock GoldenExtremes() {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min(), kMax = std::numeric_limits<int64_t>::max();
  Batch batch = GoldenBatch(TableId::kSpan);
  batch.Append(0xFFFFFFFF, {kMax, 0, 1, -1, kMin, 1, kMax, -1, 0});
  batch.Append(0, {kMin, kMax, 1, 0, kMax, 1, kMin, 1, 0});
  batch.Append(0, {-1, kMax, 1, 1, 0, 1, 0, 0, 0});
  return {"block_extremes", std::move(batch), {}};
}

inline GoldenBlock GoldenEmpty() { return {"block_empty", GoldenBatch(TableId::kLoss), {}}; }

inline std::vector<GoldenBlock> GoldenBlocks() {
  return {GoldenExample(), GoldenSlices(), GoldenCounters(), GoldenExtremes(), GoldenEmpty()};
}

}  // namespace stepscope
