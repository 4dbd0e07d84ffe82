// SPDX-License-Identifier: Apache-2.0
// LEB128 varints and zigzag, as in Protocol Buffers: 7 bits a byte, low group first, at most 10 bytes for 64 bits.
// VarintReader is for untrusted bytes: it never reads past its end, and after the first bad read every later one fails too.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace stepscope {

constexpr size_t kMaxVarintBytes = 10;

constexpr uint64_t ZigZag(int64_t value) { return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63); }
constexpr int64_t UnZigZag(uint64_t value) { return static_cast<int64_t>((value >> 1) ^ (~(value & 1) + 1)); }

/// Bytes that PutVarint writes for `value`.
constexpr size_t VarintBytes(uint64_t value) { return static_cast<size_t>(std::bit_width(value | 1) + 6) / 7; }

/// Writes at `out`, which has room for kMaxVarintBytes; returns the first byte after.
inline char* PutVarint(char* out, uint64_t value) {
  while (value >= 0x80) {
    *out++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *out++ = static_cast<char>(value);
  return out;
}

inline void AppendVarint(std::string& out, uint64_t value) {
  char bytes[kMaxVarintBytes];
  out.append(bytes, static_cast<size_t>(PutVarint(bytes, value) - bytes));
}

class VarintReader {
 public:
  explicit VarintReader(std::string_view bytes) : at_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool ok() const { return ok_; }
  size_t left() const { return static_cast<size_t>(end_ - at_); }

  /// Next varint; 0 and !ok() when the bytes end early or the value does not fit 64 bits.
  uint64_t Next() {
    if (at_ != end_ && static_cast<uint8_t>(*at_) < 0x80) return static_cast<uint8_t>(*at_++);
    return NextLong();
  }
  int64_t NextSigned() { return UnZigZag(Next()); }

  /// Next `size` bytes; empty and !ok() when fewer are left.
  std::string_view Take(uint64_t size) {
    if (size > left()) return Fail(), std::string_view{};
    std::string_view taken(at_, size);
    at_ += size;
    return taken;
  }

 private:
  void Fail() {
    ok_ = false;
    at_ = end_;
  }
  uint64_t NextLong() {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at_ != end_; shift += 7) {
      const uint64_t byte = static_cast<uint8_t>(*at_++);
      if (shift == 63 && byte > 1) break;
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    Fail();
    return 0;
  }

  const char* at_;
  const char* end_;
  bool ok_ = true;
};

}  // namespace stepscope
