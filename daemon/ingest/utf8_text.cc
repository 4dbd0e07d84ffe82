// SPDX-License-Identifier: Apache-2.0
#include "daemon/ingest/utf8_text.h"

#include <algorithm>
#include <cstdint>

namespace stepscope {
namespace {

/// Bytes of the valid sequence at the front of `bytes`, 0 when it is none (RFC 3629).
size_t SequenceBytes(std::string_view bytes) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead >= 0xC2 && lead < 0xE0 ? 2 : lead >= 0xE0 && lead < 0xF0 ? 3 : lead >= 0xF0 && lead < 0xF5 ? 4 : 0;
  if (length == 0 || bytes.size() < length) return 0;
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xBF) return 0;
  }
  return length;
}

}  // namespace

std::string Utf8Text(std::string_view bytes) {
  if (std::ranges::all_of(bytes, [](char c) { return static_cast<uint8_t>(c) < 0x80; })) return std::string(bytes);
  std::string out;
  while (!bytes.empty()) {
    const size_t length = SequenceBytes(bytes);
    out += length == 0 ? std::string_view("\xEF\xBF\xBD") : bytes.substr(0, length);
    bytes.remove_prefix(std::max<size_t>(length, 1));
  }
  return out;
}

}  // namespace stepscope
