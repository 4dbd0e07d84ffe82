// SPDX-License-Identifier: Apache-2.0
// Pieces: a fuzz input as a sequence of pieces, each a little-endian u16 length and that many bytes. The last may be shorter than
// it says. AppendPiece writes what it reads, for seeds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace stepscope::fuzz {

class Pieces {
 public:
  Pieces(const uint8_t* data, size_t size) : left_(reinterpret_cast<const char*>(data), size) {}
  bool empty() const { return left_.size() < 2; }
  /// Empty at the end.
  std::string_view Next() {
    if (empty()) return {};
    const size_t wanted = static_cast<uint8_t>(left_[0]) | static_cast<size_t>(static_cast<uint8_t>(left_[1])) << 8;
    const std::string_view piece = left_.substr(2, wanted);
    left_.remove_prefix(2 + piece.size());
    return piece;
  }

 private:
  std::string_view left_;
};

inline void AppendPiece(std::string& out, std::string_view piece) {
  piece = piece.substr(0, 65535);
  out += static_cast<char>(piece.size());
  out += static_cast<char>(piece.size() >> 8);
  out += piece;
}

inline void Check(bool condition) {
  if (!condition) std::abort();
}

}  // namespace stepscope::fuzz
