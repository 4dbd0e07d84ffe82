// SPDX-License-Identifier: Apache-2.0
// From a user's text to a recorded name: invalid UTF-8 becomes U+FFFD, a trailing number is split off, and more than 4 KB is cut
// with a hash suffix, so that two long names which differ only at the end stay two names. The rules are the public ones of
// stepscope/stepscope.h.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "contract/ring.h"

namespace stepscope::agent {

// 64-bit hash of bytes; not stable between versions.
uint64_t HashBytes(const char* bytes, size_t count, uint64_t seed);

// Copies text to `out` (at most `capacity` bytes) with every invalid sequence replaced by U+FFFD, never cutting a character.
struct RepairedText {
  size_t bytes;     // written to out
  size_t consumed;  // of the text; less than its size when out was too small
};
RepairedText RepairUtf8(const char* text, size_t bytes, char* out, size_t capacity);

// "step_12" → {4, true, 12}; "step" → {4, false, 0}.
struct SplitNumber {
  size_t base_bytes;
  bool has_number;
  int64_t number;
};
SplitNumber SplitTrailingNumber(const char* text, size_t bytes);

struct NameText {
  char text[STEPSCOPE_NAME_MAX_BYTES];
  size_t bytes;
  bool cut;
};
// The recorded form of a base name, its number already split off.
void MakeNameText(const char* base, size_t bytes, NameText* out);

}  // namespace stepscope::agent
