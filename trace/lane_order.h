// SPDX-License-Identifier: Apache-2.0
// Lane order: the row order of a block. Rows grouped by lane (ascending id), within a lane by start, ties as they came.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/batch.h"

namespace stepscope {

struct LaneRange {
  uint32_t lane = 0;
  uint32_t first_row = 0;  ///< position in lane order
  uint32_t rows = 0;
};

struct LaneOrder {
  std::vector<LaneRange> lanes;
  std::vector<uint32_t> position_of;  ///< of each row of the batch; empty when the batch is in lane order already
};

/// Linear for rows that are sorted by start within their lane, which is how sources deliver them.
LaneOrder OrderByLane(const Batch& batch);

}  // namespace stepscope
