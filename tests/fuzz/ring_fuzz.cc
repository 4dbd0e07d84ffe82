// SPDX-License-Identifier: Apache-2.0
// Any bytes as the content of rings: the decoder must not crash, must count what it cannot read, and its state must survive
// being stored. Input: pieces of {u8 ring, u16 length, bytes}; ring bit 7 starts a new generation.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "daemon/ingest/ring_decoder.h"

namespace {

void Check(bool condition) {
  if (!condition) std::abort();
}

/// Every index a batch carries must lie inside its dictionaries.
void CheckBatch(const stepscope::Batch& batch) {
  const auto columns = stepscope::FindTable(batch.table)->columns;
  Check(batch.columns.size() == columns.size());
  for (const uint32_t lane : batch.lane) Check(lane < batch.entities.size());
  for (size_t c = 0; c < columns.size(); ++c) {
    Check(batch.columns[c].size() == batch.rows());
    for (const int64_t value : batch.columns[c]) {
      if (columns[c].kind == stepscope::ColumnKind::kName) Check(value >= 0 && static_cast<size_t>(value) < batch.names.size());
      if (columns[c].kind == stepscope::ColumnKind::kEntity) Check(value < static_cast<int64_t>(batch.entities.size()));
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stepscope;
  SessionIdentity identity;
  identity.session = std::string(16, 's');
  identity.run = {1};
  identity.clock = {1};
  SessionDecoder decoder(&identity);
  RingBytes left = std::as_bytes(std::span(data, size));
  SessionRows rows(&identity);
  while (left.size() > 3) {
    const auto head = std::to_integer<uint8_t>(left[0]);
    const size_t wanted = std::to_integer<size_t>(left[1]) | std::to_integer<size_t>(left[2]) << 8;
    const size_t length = std::min(wanted, left.size() - 3);
    const uint32_t ring = head & 7;
    if ((head & 0x80) != 0) decoder.StartGeneration(ring, 5, 6, rows);
    decoder.Decode(ring, left.subspan(3, length), rows);
    const auto state = ParseRingState(EncodeRingState(decoder.ring(ring)));
    Check(state.ok() && *state == decoder.ring(ring));
    left = left.subspan(3 + length);
  }
  decoder.Finish(rows);
  (void)ParseRingState({reinterpret_cast<const char*>(data), size});
  (void)ParseRingName({reinterpret_cast<const char*>(data), size});
  for (const Batch& batch : rows.Take().batches) CheckBatch(batch);
  return 0;
}
