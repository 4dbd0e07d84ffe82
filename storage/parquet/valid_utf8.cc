// SPDX-License-Identifier: Apache-2.0
#include "storage/parquet/valid_utf8.h"

#include <cstdint>

namespace stepscope {
namespace {

/// Bytes of the valid sequence that begins at `at` (RFC 3629: shortest form, no surrogates, up to U+10FFFF); 0 = none does.
size_t SequenceBytes(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<uint8_t>(text[at + i]) : uint8_t{0}; };
  const auto tail = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if ((lead & 0xF0) == 0xE0) {
    const bool shortest = lead != 0xE0 || byte(1) >= 0xA0;
    const bool surrogate = lead == 0xED && byte(1) >= 0xA0;
    return tail(1) && tail(2) && shortest && !surrogate ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    const bool in_range = (lead != 0xF0 || byte(1) >= 0x90) && (lead != 0xF4 || byte(1) <= 0x8F);
    return tail(1) && tail(2) && tail(3) && in_range ? 4 : 0;
  }
  return 0;
}

}  // namespace

std::string ValidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = SequenceBytes(text, at);
    if (bytes == 0) {
      valid += "\xEF\xBF\xBD";
      ++at;
    } else {
      valid += text.substr(at, bytes);
      at += bytes;
    }
  }
  return valid;
}

}  // namespace stepscope
