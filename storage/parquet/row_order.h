// SPDX-License-Identifier: Apache-2.0
// Lane order over several blocks: by lane, within a lane by start, ties in the order of the blocks. Each block is in lane order
// already, so this joins runs of rows and sorts only lanes whose blocks overlap in time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "trace/block.h"

namespace stepscope {

struct RowRef {
  uint32_t block = 0;
  uint32_t row = 0;
};

std::vector<RowRef> LaneOrder(std::span<const DecodedBlock> blocks);

}  // namespace stepscope
