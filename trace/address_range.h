// SPDX-License-Identifier: Apache-2.0
// AddressRange: memory of one process, [begin, end), as that process numbers it.
#pragma once

#include <cstdint>

namespace stepscope {

struct AddressRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool empty() const { return begin >= end; }
  bool Contains(uint64_t address) const { return address >= begin && address < end; }
  friend bool operator==(const AddressRange&, const AddressRange&) = default;
};

}  // namespace stepscope
