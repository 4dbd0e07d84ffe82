// SPDX-License-Identifier: Apache-2.0
// DenseIndex numbers distinct 64-bit keys 0, 1, 2 … in order of first sight. Open addressing, no erase: the block encoder asks it
// once per row, where std::unordered_map costs as much as the rest of the encoding together.
#pragma once

#include <cstdint>
#include <vector>

namespace stepscope {

class DenseIndex {
 public:
  DenseIndex() { Clear(); }

  void Clear() {
    slots_.assign(kFirstSlots, Slot{});
    keys_.clear();
  }
  /// Number of `key`, a new one if it was never seen.
  uint32_t Of(uint64_t key) {
    if ((keys_.size() + 1) * 2 > slots_.size()) Grow();
    Slot& slot = Find(key);
    if (slot.number == 0) {
      keys_.push_back(key);
      slot = {key, static_cast<uint32_t>(keys_.size())};
    }
    return slot.number - 1;
  }
  const std::vector<uint64_t>& keys() const { return keys_; }

 private:
  static constexpr size_t kFirstSlots = 256;
  struct Slot {
    uint64_t key = 0;
    uint32_t number = 0;  ///< 1 + index; 0 = free
  };

  Slot& Find(uint64_t key) {
    const uint64_t mixed = key * 0x9E3779B97F4A7C15u;
    size_t at = (mixed ^ (mixed >> 32)) & (slots_.size() - 1);
    while (slots_[at].number != 0 && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }
  void Grow() {
    slots_.assign(slots_.size() * 4, Slot{});
    for (uint32_t i = 0; i < keys_.size(); ++i) Find(keys_[i]) = {keys_[i], i + 1};
  }

  std::vector<Slot> slots_;
  std::vector<uint64_t> keys_;
};

}  // namespace stepscope
