// SPDX-License-Identifier: Apache-2.0
// Any bytes as a perf ring, which is memory shared with the kernel: each record is read within its bounds, and what it says
// becomes turns and rows. Input: u16 head and u16 tail, then the ring's data.
#include <linux/perf_event.h>
#include <unistd.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>

#include "daemon/collector/own/switch_record.h"
#include "daemon/collector/own/switch_rings.h"
#include "tests/fuzz/pieces.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace stepscope;
  if (size < 4) return 0;
  static const auto page = static_cast<size_t>(getpagesize());
  const size_t data_bytes = std::max<size_t>(64, std::bit_ceil(size - 4));
  const auto map = std::make_unique<uint64_t[]>((page + data_bytes) / 8);
  auto* bytes = reinterpret_cast<uint8_t*>(map.get());
  std::memcpy(bytes + page, data + 4, size - 4);
  auto* control = reinterpret_cast<perf_event_mmap_page*>(bytes);
  control->data_offset = page;
  control->data_size = data_bytes;
  control->data_tail = (static_cast<uint64_t>(data[2]) | static_cast<uint64_t>(data[3]) << 8) & ~uint64_t{7};
  control->data_head = control->data_tail + std::min<uint64_t>((data[0] | data[1] << 8) & ~7, data_bytes);
  SwitchRing ring(map.get(), data_bytes);
  ring.Read([](std::span<const std::byte> record) {
    if (const auto parsed = ParseSwitchRecord(record)) fuzz::Check(parsed->comm.size() <= record.size());
  });
  fuzz::Check(control->data_tail == control->data_head);
  (void)ParseSwitchRecord(std::as_bytes(std::span(data, size)));
  return 0;
}
