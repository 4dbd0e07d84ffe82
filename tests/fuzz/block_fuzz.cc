// SPDX-License-Identifier: Apache-2.0
// Any bytes: the decoder neither crashes nor allocates beyond its limits. What it accepts encodes again to the same rows.
#include <cstdint>
#include <cstdlib>

#include "trace/block.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)stepscope::PeekHeader(bytes);
  const auto block = stepscope::DecodeBlock(bytes);
  if (!block.ok()) return 0;
  const auto again = stepscope::EncodeBlock(block->batch);
  if (!again.ok()) abort();
  const auto decoded = stepscope::DecodeBlock(*again);
  if (!decoded.ok() || decoded->batch.lane != block->batch.lane) abort();
  return 0;
}
