// SPDX-License-Identifier: Apache-2.0
// Constants of the block format shared by encoder and decoder (docs/formats/block.md). Not for other folders.
#pragma once

#include <cstdint>
#include <string_view>

namespace stepscope::block_format {

constexpr std::string_view kMagic = "SSBK";
/// magic, major version, minor version, u16 little-endian size of the varint fields that follow
constexpr size_t kFixedHeaderBytes = 8;
/// Largest body a reader agrees to unpack: 65,536 rows of 48 columns of the longest varint.
constexpr uint64_t kMaxBodyBytes = 32u << 20;
constexpr uint64_t kMaxClockMaps = 4096;
constexpr uint64_t kMaxDictionary = 4096;
constexpr uint64_t kLaneLossy = 1;

/// How a column's values became varints. `v` value, `p` previous value of the lane (first row: 0, or min_time in column of
/// kind time at position 0), `r` the reference column, which stands earlier in the block.
enum class Encoding : uint64_t {
  kConstant = 0,    ///< one zigzag value for all rows
  kUnsigned = 1,    ///< v as unsigned
  kSigned = 2,      ///< zigzag v
  kDelta = 3,       ///< zigzag (v - p)
  kDictionary = 4,  ///< count, zigzag values, then one index per row
  kXor = 5,         ///< byte-swapped (v xor p): doubles
  kOffset = 6,      ///< reference column id, then zigzag (v - r of the same row)
  kAfterEnd = 7,    ///< reference column id, then zigzag (v - (p + r of the previous row)): start after the previous end
};

}  // namespace stepscope::block_format
