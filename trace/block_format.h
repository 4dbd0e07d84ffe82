// SPDX-License-Identifier: Apache-2.0
// Constants of the block format shared by encoder and decoder (docs/formats/block.md). Not for other folders.
#pragma once

#include <cstdint>
#include <string_view>

namespace stepscope::block_format {

constexpr std::string_view kMagic = "SSBK";
/// magic, major version, minor version, u16 little-endian size of the varint fields that follow
constexpr size_t kFixedHeaderBytes = 8;
/// Largest body a reader agrees to unpack: 65,536 rows of some 60 columns of 8 bytes.
constexpr uint64_t kMaxBodyBytes = 32u << 20;
constexpr uint64_t kMaxClockMaps = 4096;
constexpr uint64_t kMaxDictionary = 4096;
constexpr uint64_t kLaneLossy = 1;

/// How a column's values became residuals, unsigned 64-bit numbers that are small where the column is regular. `v` value, `p`
/// previous value of the lane (first row: 0, in column 0 of the table min_time), `r` the reference column, which stands earlier
/// in the block. Sums wrap around. Residuals are stored as byte planes: byte 0 of every row, then byte 1 of every row, …
enum class Encoding : uint64_t {
  kConstant = 0,    ///< one zigzag varint for all rows, no planes
  kUnsigned = 1,    ///< v as it is
  kSigned = 2,      ///< zigzag v
  kDelta = 3,       ///< zigzag (v - p)
  kDictionary = 4,  ///< varint count, zigzag varint values; then the residual is an index
  kXor = 5,         ///< byte-swapped (v xor p): doubles
  kOffset = 6,      ///< varint reference column id; then zigzag (v - r of the same row)
  kAfterEnd = 7,    ///< varint reference column id; then zigzag (v - (p + r of the previous row)): start after
                    ///< the previous end
};

}  // namespace stepscope::block_format
